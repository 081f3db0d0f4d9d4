package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestAValueIsNotShown(t *testing.T) {
	const s = Value("do-not-print-this-one")
	type config struct {
		Token Value `yaml:"token" json:"token"`
	}
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%U", "%10s"} {
		out = append(out, fmt.Sprintf(verb, s), fmt.Sprintf(verb, config{s}), fmt.Sprintf(verb, &config{s}),
			fmt.Sprintf(verb, []Value{s}))
	}
	out = append(out, s.String(), fmt.Sprint(s), fmt.Sprintln(errors.New("x"), s))
	j, err := json.Marshal(config{s})
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(config{s})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "s", s, "c", config{s})
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "s", s, "c", config{s})
	for _, o := range append(out, string(j), string(y), b.String()) {
		if strings.Contains(o, "print-this") || strings.Contains(o, fmt.Sprintf("%x", "print")) {
			t.Errorf("printed: %s", o)
		}
	}
	var c config
	if err := yaml.Unmarshal([]byte("token: do-not-print-this-one"), &c); err != nil ||
		c.Token.Reveal() != "do-not-print-this-one" {
		t.Errorf("read from YAML: %q, %v", c.Token.Reveal(), err)
	}
	if s.Reveal() != "do-not-print-this-one" {
		t.Error("Reveal does not reveal")
	}
}

// What was copied with a secret is told apart, and nothing of the secret is said.
func TestWhatWasCopiedWithASecretIsFound(t *testing.T) {
	const s = "hunter2-hunter2"
	for value, want := range map[string]string{
		"": "", s: "", "a'" + s: "", `"` + s: "", "'": "", "'" + s + `"`: "", s + "'": "",
		`"` + s + `"`: "quotation marks", "'" + s + "'": "quotation marks", "`" + s + "`": "quotation marks",
		`""`:     "quotation marks",
		s + "\r": "line end", s + "\n": "line end", s + "\r\n": "line end", `"` + s + "\"\r": "line end",
		" " + s: "space", s + "\t": "space", s + "\u00a0": "space", "\n" + s: "space",
		"\ufeff" + s: "byte order mark", "\ufeff\"" + s + `"`: "byte order mark",
	} {
		got := FindSlip(Value(value))
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Contains(got, s) {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
