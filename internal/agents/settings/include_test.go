package settings

import (
	"errors"
	"strings"
	"testing"
)

const ours = "include: [preset/coding-agent] # countersign install\n"

// Including a preset puts one line in, or one name into a list, and nothing else; what was put in comes out again.
func TestIncludeWritesOneLineThatComesOutAgain(t *testing.T) {
	const head = "agents: [{name: coder, token: coder-token-0123456789}]\n"
	for old, want := range map[string]string{
		configured:                            strings.Replace(configured, "policy:\n", "policy:\n  "+ours, 1),
		head:                                  head + "policy: # countersign install\n  " + ours,
		head + "policy:\n":                    head + "policy:\n  " + ours,
		head + "policy:\n    mode: observe\n": head + "policy:\n    " + ours + "    mode: observe\n",
		strings.ReplaceAll(configured, "\n", "\r\n"): strings.ReplaceAll(strings.Replace(configured, "policy:\n",
			"policy:\n  "+ours, 1), "\n", "\r\n"),
	} {
		got, err := Include("gate.yaml", []byte(old), CodingAgentPreset, noEnv)
		if err != nil || string(got) != want {
			t.Errorf("%s\nbecame (%v)\n%s\nwant\n%s", old, err, got, want)
			continue
		}
		if !Includes("gate.yaml", got, CodingAgentPreset, noEnv) || Includes("gate.yaml", []byte(old), CodingAgentPreset,
			noEnv) {
			t.Errorf("whether it is included is told wrongly of\n%s", got)
		}
		if again, err := Include("gate.yaml", got, CodingAgentPreset, noEnv); err != nil || string(again) != want {
			t.Errorf("repeated, it became (%v)\n%s", err, again)
		}
		// With the guard, which goes the same way.
		guarded, err := Guard("gate.yaml", got, gateFiles, noEnv)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Exclude("gate.yaml", guarded, CodingAgentPreset, noEnv)
		if err == nil {
			back, err = Unguard("gate.yaml", back, noEnv)
		}
		if err != nil || string(back) != old {
			t.Errorf("%s\ncame back (%v) as\n%s", old, err, back)
		}
	}
}

func TestIncludeJoinsAListAndLeavesTheRest(t *testing.T) {
	for old, want := range map[string]string{
		"policy:\n  include: [preset/payments] # money\n": "policy:\n  include: [preset/payments, preset/coding-agent] # money\n",
		"policy:\n  include: [preset/coding-agent]\n":     "policy:\n  include: [preset/coding-agent]\n",
	} {
		got, err := Include("gate.yaml", []byte(old), CodingAgentPreset, noEnv)
		if err != nil || string(got) != want {
			t.Errorf("%s\nbecame (%v)\n%s", old, err, got)
		}
		if back, err := Exclude("gate.yaml", got, CodingAgentPreset, noEnv); err != nil || string(back) != want {
			t.Errorf("what somebody wrote came back (%v) as\n%s", err, back)
		}
	}
	for _, old := range []string{
		"policy: {mode: observe}\n", "policy:\n  include:\n    - preset/payments\n", "security: {hitl: {}}\n",
	} {
		if got, err := Include("gate.yaml", []byte(old), CodingAgentPreset, noEnv); !errors.Is(err, errByHand) {
			t.Errorf("%s\nbecame (%v)\n%s", old, err, got)
		}
	}
	if _, err := Include("gate.yaml", []byte("policy: ["), CodingAgentPreset, noEnv); err == nil {
		t.Error("what cannot be read was changed")
	}
}
