package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
)

// Each file in testdata/problems makes one mistake, or a few; the comments at its end say what is
// reported, and where.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	opts := Options{
		Servers: []string{"files", "tickets"}, Agents: []string{"treasury-bot", "bot"},
		People: []approval.Actor{
			{Name: "hana", Approver: true, Groups: []string{"finance"}},
			{Name: "ken", Approver: true, Groups: []string{"finance", "security"}},
			{Name: "mei", Admin: true, Groups: []string{"finance", "admins"}},
		},
		Owner:     func(agent string) string { return map[string]string{"treasury-bot": "hana"}[agent] },
		Languages: []string{"en", "ja", "th", "zh-TW"},
		Reached:   func(person string) bool { return person == "hana" },
	}
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

// Aliases nest what the text does not: a value deeper than arguments can be is refused.
func TestAValueThatAliasesNestTooDeeplyIsRefused(t *testing.T) {
	var src strings.Builder
	src.WriteString("policy:\n  rules:\n    - action: deny\n      conditions:\n        - param: x\n          equals:\n            - &a0 [1]\n")
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&src, "            - &a%d [*a%d]\n", i, i-1)
	}
	p, problems := Compile(Parse([]byte(src.String())), Options{})
	if p != nil || !slices.ContainsFunc(problems, func(p Problem) bool {
		return strings.Contains(p.Message, "nested too deeply")
	}) {
		t.Errorf("compiled: %t; %v", p != nil, problems)
	}
}
