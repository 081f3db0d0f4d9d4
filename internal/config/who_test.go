package config

import (
	"slices"
	"strings"
	"testing"

	"countersign/approval"

	"github.com/google/go-cmp/cmp"
)

const two = `
agents:
  - {name: treasury-bot, token: "${BOT_TOKEN}", owner: hana}
  - {name: bot, token: "${OTHER_TOKEN}"}
people:
  - {name: hana, roles: [approver], groups: [finance, leads], line: U4af4980629d1e4b8c9a2c1b2d3e4f5a6}
  - {name: ken, roles: [approver], groups: [finance], token: "${KEN_TOKEN}"}
`

const lineChannel = `
channels:
  line: {channel_secret: "${LINE_CHANNEL_SECRET}", channel_access_token: "${LINE_TOKEN}", notify: [hana]}
`

func TestGroupsAndOwnersAreRead(t *testing.T) {
	cfg, _ := parseText(t, two)
	var owners []string
	for _, a := range cfg.Agents() {
		owners = append(owners, a.Owner)
	}
	if !slices.Equal(owners, []string{"hana", ""}) {
		t.Errorf("owners %q", owners)
	}
	if p := cfg.People(); !slices.Equal(p[0].Groups, []string{"finance", "leads"}) || !slices.Equal(p[1].Groups,
		[]string{"finance"}) {
		t.Errorf("groups %q and %q", p[0].Groups, p[1].Groups)
	}
}

// Rule 10: where a rule's people have no address, check says so, unless there is a room in which everybody sees it.
func TestRule10_ApproversWhomNoCardReachesAreWarnedOf(t *testing.T) {
	const rules = `
policy:
  rules:
    - tools: [pay]
      approvals: [{group: finance, count: 2}]
    - {tools: [read], approvers: [leads]}
    - {tools: [write], approvers: [ken]}
`
	const slackRoom = `  slack: {bot_token: "${SLACK_BOT_TOKEN}", signing_secret: "${SLACK_SIGNING_SECRET}", channel: C0APPROVALS}
`
	const slackAlone = `  slack: {bot_token: "${SLACK_BOT_TOKEN}", signing_secret: "${SLACK_SIGNING_SECRET}"}
`
	warned := func(text string) []string {
		_, problems := parseText(t, text)
		var said []string
		for _, p := range problems {
			if strings.Contains(p.Message, "cards do not reach") {
				said = append(said, p.String())
			}
		}
		return said
	}
	want := []string{
		"test.yaml:15:19: warning: cards do not reach enough people: this needs 2 approvers out of finance, and with an " +
			"address on a channel there is only 1 (hana)",
		"test.yaml:17:35: warning: cards do not reach enough people: this needs 1 approver out of ken, and with an " +
			"address on a channel there is none",
	}
	if diff := cmp.Diff(want, warned(two+lineChannel+rules)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for name, text := range map[string]string{
		"a room":     two + lineChannel + slackRoom + rules,
		"no channel": two + rules,
		"everybody with an address each": strings.ReplaceAll(two, `token: "${KEN_TOKEN}"`,
			`slack: U02KEN, channels: [slack]`) + lineChannel + slackAlone + rules,
	} {
		if got := warned(text); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAnAgentThatSharesNothingWithItsOwnerNeedsOnePersonMore(t *testing.T) {
	const rule = "policy: {rules: [{tools: [pay], approvals: [{group: finance, count: 2}], separate_duties: %}]}\n"
	if _, _, err := Parse("test.yaml", []byte(two+strings.Replace(rule, "%", "true", 1)), testEnv); err == nil ||
		!strings.Contains(err.Error(), "test.yaml:8:45: nobody can ever approve this: ") ||
		!strings.Contains(err.Error(), "hana, who owns treasury-bot, does not count") {
		t.Errorf("separate duties: %v", err)
	}
	cfg, _ := parseText(t, two+strings.Replace(rule, "%", "false", 1))
	v := cfg.Policy.Evaluate(t.Context(), approval.Call{Agent: "treasury-bot", Tool: "pay", Args: mustArgs(t, `{}`)})
	if v.Need.Total() != 2 {
		t.Errorf("need %+v", v.Need)
	}
}
