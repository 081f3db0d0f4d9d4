//go:build interop

package interop

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"

	"countersign/internal/testkit"
)

// What internal/bench counts is on the record of the program that it measures, or its exit code would say so.
func TestBenchMeasuresTheProgram(t *testing.T) { measure(t) }

// measure has six calls of each figure made, in one round.
func measure(t *testing.T, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), bench, append(args, "-program", program, "-dir", t.TempDir(),
		"-rounds", "1", "-round", "10s", "-calls", "6", "-callers", "3", "-json")...)
	said := &testkit.Buffer{}
	c.Stderr = said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, said, out)
	}
	var report struct {
		Gate    string
		Figures []struct {
			Key           string
			Calls, Failed int
		}
	}
	if err := json.Unmarshal(out, &report); err != nil || report.Gate != "own" {
		t.Fatalf("%v\n%s", err, out)
	}
	calls := map[string]int{}
	for _, f := range report.Figures {
		calls[f.Key] = f.Calls - f.Failed
	}
	want := []string{"quarantined", "allowed", "decided", "used", "gateway", "push", "press"}
	if slices.Contains(args, "-agents") {
		want = append(want, "others", "beside")
	}
	for _, key := range want {
		if calls[key] != 6 {
			t.Errorf("%s: %d calls, want 6", key, calls[key])
		}
	}
}
