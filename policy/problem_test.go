package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/testkit"
)

// Each file in testdata/problems makes one mistake, or a few; the comments at its end say what is
// reported, and where.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	opts := Options{Servers: []string{"files", "tickets"}, Agents: []string{"treasury-bot", "bot"}}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src, _, _ := strings.Cut(string(content), "#! ")
			p, problems := Compile(Parse([]byte(src)), opts)
			var lines []string
			for _, problem := range problems {
				lines = append(lines, "#! "+problem.String()+"\n")
				if problem.Line == 0 || problem.Column == 0 {
					t.Errorf("%s: no position for %s", problem.Path, problem)
				}
			}
			testkit.Golden(t, file, []byte(src+strings.Join(lines, "")))
			if (p == nil) != HasErrors(problems) {
				t.Errorf("a policy: %t, although the problems are %v", p != nil, problems)
			}
		})
	}
}
