package rest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"countersign/internal/testkit"
)

// TestTranscripts holds whole conversations word for word. In a file "> NAME METHOD PATH" is a request
// of a principal, "< STATUS TYPE" its answer, and "clock D" moves the clock. Ids are $1, $2, … in the
// order in which they come up.
var versionRE = regexp.MustCompile(`"version":"[-_A-Za-z0-9]{22}"`)

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts")
	}
	tokens := map[string]string{"bot": botToken, "other": otherToken, "hana": hanaToken, "ken": kenToken,
		"root": rootToken, "guest": guestToken, "nobody": ""}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			var ids []string
			out := &txtar.Archive{Comment: script.Comment}
			for _, f := range script.Files {
				word, rest, _ := strings.Cut(f.Name, " ")
				switch word {
				case "<": // written with its request
				case "clock":
					d, err := time.ParseDuration(rest)
					if err != nil {
						t.Fatal(err)
					}
					w.clock.Advance(d)
					out.Files = append(out.Files, f)
				case ">":
					parts := strings.Fields(rest)
					token, known := tokens[parts[0]]
					if !known || len(parts) != 3 {
						t.Fatalf("%s: what is that?", f.Name)
					}
					var names []string
					for n, id := range slices.Backward(ids) {
						names = append(names, fmt.Sprintf("$%d", n+1), id)
					}
					fill := strings.NewReplacer(names...)
					r := w.do(token, parts[1], fill.Replace(parts[2]), fill.Replace(strings.TrimSpace(string(f.Data))),
						headerCorrelation, fmt.Sprintf("step-%d", len(out.Files)))
					body := ulidRE.ReplaceAllStringFunc(string(r.body), func(id string) string {
						if !slices.Contains(ids, id) {
							ids = append(ids, id)
						}
						return fmt.Sprintf("$%d", slices.Index(ids, id)+1)
					})
					body = versionRE.ReplaceAllString(body, `"version":"$$V"`) // the id is in it
					answer := txtar.File{Name: fmt.Sprintf("< %d %s", r.status, r.header.Get("Content-Type")),
						Data: []byte(body + "\n")}
					out.Files = append(out.Files, f, answer)
				default:
					t.Fatalf("%s: what is that?", f.Name)
				}
			}
			testkit.Golden(t, file, txtar.Format(out))
		})
	}
}
