package config

import (
	"slices"
	"testing"
	"time"

	"countersign/approval"
)

func TestHowAgentsAsk(t *testing.T) {
	cfg, _ := parseText(t, `
agents:
  - {name: a, token: "${A_TOKEN}"}
  - {name: b, token: "${B_TOKEN}", group: run, cards_at_once: 0}
  - {name: c, token: "${C_TOKEN}", cards_at_once: 1000}
`)
	for agent, want := range map[string]approval.Asks{
		"a":     {},
		"b":     {Group: approval.GroupRun},
		"c":     {CardsAtOnce: 1000},
		"else":  {}, // has no section of its own
		"local": {},
	} {
		if got := cfg.AgentAsks(agent); got != want {
			t.Errorf("%s asks as %+v; want %+v", agent, got, want)
		}
	}
}

func TestQuietHoursAreInThePersonsZone(t *testing.T) {
	cfg, _ := parseText(t, `
time_zone: Asia/Tokyo
people:
  - {name: hana, token: "${HANA_TOKEN}", quiet_hours: 22:00-07:00}
  - {name: ken, token: "${KEN_TOKEN}", quiet_hours: "22:00-07:00", time_zone: Europe/Berlin}
  - {name: mei, token: "${MEI_TOKEN}"}
`)
	now := time.Date(2026, 1, 10, 14, 0, 0, 0, time.UTC) // 23:00 in Tokyo, 15:00 in Berlin
	want := []time.Time{time.Date(2026, 1, 10, 22, 0, 0, 0, time.UTC), {}, {}}
	for i, p := range cfg.People() {
		if got := p.Quiet.Until(now, p.Zone); !got.Equal(want[i]) {
			t.Errorf("%s is quiet until %s; want %s", p.Name, got, want[i])
		}
	}
}

// What the file says of a server comes before what it includes.
func TestIncludedRulesFollowTheServersOwn(t *testing.T) {
	cfg, _ := parseText(t, `
policy:
  include: [preset/payments]
  rules:
    - {name: mine, tools: [pay_invoice], action: deny}
mcp:
  servers:
    - {name: shop, command: [shop-mcp], require_approval: [refund]}
`)
	var names []string
	for _, r := range cfg.Policy.Rules() {
		names = append(names, r.Name)
	}
	want := []string{"mine", "mcp.servers.shop.require_approval", "mcp.servers.shop.others", "preset/payments: payments"}
	if !slices.Equal(names, want) {
		t.Errorf("the rules are %q; want %q", names, want)
	}
	for tool, rule := range map[string]string{"shop/refund": want[1], "shop/pay_later": want[2],
		"bank/pay_later": want[3]} {
		x, err := cfg.Explain(Question{Agent: "a", Tool: tool})
		if err != nil || x.Rule != rule {
			t.Errorf("%s is decided by %q (%v); want %q", tool, x.Rule, err, rule)
		}
	}
}
