package main

import (
	"context"
	"strings"

	"countersign/internal/policy/presets"
)

type presetCmd struct {
	List presetListCmd `cmd:"" help:"List the presets that a policy can include."`
	Show presetShowCmd `cmd:"" help:"Print the rules of a preset."`
}

func (*presetCmd) Help() string {
	return `A preset is a set of rules that a policy includes by name. They are tried after its own rules:

    policy:
      include: [preset/coding-agent]

Examples:

    countersign preset list
    countersign preset show coding-agent`
}

type presetListCmd struct{ output }

func (*presetListCmd) Help() string {
	return `Each line is a name and what the preset does.

Examples:

    countersign preset list
    countersign preset list --json`
}

// presetInfo is a preset as JSON.
type presetInfo struct {
	Name  string `json:"name"` // as include takes it
	About string `json:"about"`
	Text  string `json:"text,omitempty"`
}

func (c *presetListCmd) Run(_ context.Context, s *std) error {
	var all []presetInfo
	for _, name := range presets.Names() {
		all = append(all, presetInfo{Name: presetPrefix + name, About: presets.About(name)})
	}
	if c.forPrograms() {
		return c.print(s, all)
	}
	longest := 0
	for _, p := range all {
		longest = max(longest, len(p.Name))
	}
	for _, p := range all {
		s.printf("%-*s  %s\n", longest, p.Name, p.About)
	}
	return nil
}

// presetPrefix stands before the name of a preset in a policy.
const presetPrefix = "preset/"

type presetShowCmd struct {
	output
	long
	Name string `arg:"" help:"The preset's name, such as coding-agent; with or without preset/ before it."`
}

func (*presetShowCmd) Help() string {
	return `It prints the rules with comments that say what each is for. In a policy that includes them they are tried after its own rules: to change one, write a rule of your own for the same calls.

Examples:

    countersign preset show coding-agent
    countersign preset show preset/payments`
}

func (c *presetShowCmd) Run(_ context.Context, s *std) error {
	name := strings.TrimPrefix(c.Name, presetPrefix)
	text, ok := presets.Text(name)
	if !ok {
		return usagef("unknown preset %q; use one of %s", c.Name, strings.Join(presets.Names(), ", "))
	}
	if c.forPrograms() {
		return c.print(s, presetInfo{presetPrefix + name, presets.About(name), text})
	}
	defer s.startPager()()
	s.printf("%s", text)
	return nil
}
