package config

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

// What the documentation has people paste in can be read.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	env := func(name string) (string, bool) { // of the shapes that are asked for
		value, ok := testEnv(name)
		switch name {
		case "FLEET_SECRET":
			value = strings.Repeat(value, 2)
		case "HANA_WEBHOOK":
			value = "https://hooks.example.com/" + value
		case "SLACK_APP_TOKEN":
			value = "xapp-" + value
		case "WEBHOOK_SIGNING_SECRET":
			value = base64.StdEncoding.EncodeToString([]byte(value))
		}
		return value, ok
	}
	for _, name := range []string{"policy.md", "configuration.md", "deciding.md", "presets.md", "openid.md",
		"replicas.md"} {
		data, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(data), "```yaml\n")[1:]
		if len(blocks) == 0 {
			t.Errorf("%s has no example", name)
		}
		for i, block := range blocks {
			text, _, _ := strings.Cut(block, "```")
			_, problems, _ := Parse(name, []byte(text), env)
			for _, p := range problems {
				if !p.Warning {
					t.Errorf("example %d of %s: %s", i+1, name, p)
				}
			}
		}
	}
}
