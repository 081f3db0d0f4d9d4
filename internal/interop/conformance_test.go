//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// check is what the suite says of one thing that it looked at.
type check struct {
	ID, Status   string
	ErrorMessage string
}

// verdict is what it says of all, by scenario.
type verdict struct {
	total     string
	scenarios map[string][]check
}

// failed are the scenarios with something wrong.
func (v verdict) failed() []string {
	var names []string
	for name, checks := range v.scenarios {
		if slices.ContainsFunc(checks, func(c check) bool { return c.Status == "FAILURE" }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var (
	total = regexp.MustCompile(`(?m)^Total: .*$`)
	stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`)
)

// conformance lets the suite loose on a server.
func conformance(t *testing.T, suite, url string, args ...string) verdict {
	t.Helper()
	dir := t.TempDir()
	e := run(t, dir, environ(t), append([]string{node(t), script(t, suite+"/dist/index.js"), "server", "--url", url, "-o",
		filepath.Join(dir, "out")}, args...)...)
	v := verdict{total.FindString(e.out + e.errout), map[string][]check{}}
	files, err := filepath.Glob(filepath.Join(dir, "out", "*", "checks.json"))
	if err != nil || v.total == "" || len(files) == 0 {
		t.Fatalf("the suite did not run (%d files, %v): %s", len(files), err, e)
	}
	for _, file := range files {
		name := stamp.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []check
		if err := json.Unmarshal(b, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		v.scenarios[name] = append(v.scenarios[name], checks...)
	}
	if len(v.failed()) == 0 != (e.code == 0) && !slices.Contains(args, "--requirements") {
		t.Errorf("exit code %d with %d scenarios failed", e.code, len(v.failed()))
	}
	return v
}

// onlyStreams are checks of servers that answer in streams, which is theirs to choose. What needs no stream we
// answer in JSON, and the suite says of that only that there was nothing to look at.
var onlyStreams = []string{"server-sse-streams-functional", "server-sse-retry-field"}

// TestConformance has the suite look at the SDK's reference server, then at the same server through a gate that
// allows all and adds no prefix: whatever passes there must pass here.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, suite string
		args        []string
		stateless   bool
		atLeast     int // scenarios, lest an empty run should pass
	}{
		{"2025-11-25", "conformance", []string{"--requirements", "2025-11-25"}, false, 33},
		{"2026-07-28", "conformance", []string{"--requirements", "2026-07-28"}, true, 50},
		{"2025-11-25 by the stable suite", "conformance-stable", nil, false, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := reference(t, tt.stateless)
			g := serve(t, `anonymous_agent: bot
policy:
  rules: [{tools: ["*"], risk: low, action: allow}]
mcp:
  servers:
    - {name: ref, url: "`+server+`", prefix: ""}
`)
			direct := conformance(t, tt.suite, server, tt.args...)
			through := conformance(t, tt.suite, g.url+"/mcp", tt.args...)
			t.Logf("direct:  %s, %d scenarios, failed %v", direct.total, len(direct.scenarios), direct.failed())
			t.Logf("through: %s, %d scenarios, failed %v", through.total, len(through.scenarios), through.failed())

			if len(direct.scenarios) < tt.atLeast {
				t.Errorf("the suite ran %d scenarios, want at least %d", len(direct.scenarios), tt.atLeast)
			}
			failed := through.failed()
			for name, checks := range direct.scenarios {
				if slices.Contains(direct.failed(), name) {
					continue
				}
				got, ran := through.scenarios[name]
				if !ran || slices.Contains(failed, name) {
					t.Errorf("%s passes direct, and not through the gate: %s", name, told(got))
				}
				for _, c := range checks {
					same := func(g check) bool { return g.ID == c.ID && g.Status == "SUCCESS" }
					if c.Status == "SUCCESS" && !slices.ContainsFunc(got, same) && !slices.Contains(onlyStreams, c.ID) {
						t.Errorf("%s: %s is a success direct, and not through the gate: %s", name, c.ID, told(got))
					}
				}
			}
		})
	}
}

func told(checks []check) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Status != "SUCCESS" {
			b.WriteString("\n  " + c.ID + " " + c.Status + " " + c.ErrorMessage)
		}
	}
	return b.String()
}
