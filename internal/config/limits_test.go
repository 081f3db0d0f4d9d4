package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"countersign/internal/budget"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

const twoAgents = `
agents:
  - {name: bot, token: "${BOT_TOKEN}"}
  - {name: cat, token: "${CAT_TOKEN}"%s}
people:
  - {name: hana, roles: [approver], token: "${HANA_TOKEN}"}
%s`

func TestRule12_Limits(t *testing.T) {
	bot, cat, hana := budget.Principal{Agent: true, Name: "bot"}, budget.Principal{Agent: true, Name: "cat"},
		budget.Principal{Name: "hana"}
	local := budget.Principal{Agent: true, Name: "local"}
	change := func(l budget.Limits, fn func(*budget.Limits)) budget.Limits { fn(&l); return l }
	for name, c := range map[string]struct {
		cat, limits string
		want        map[budget.Principal]budget.Limits
	}{
		"the defaults": {"", "", map[budget.Principal]budget.Limits{
			bot: budget.DefaultAgent, cat: budget.DefaultAgent, local: budget.DefaultAgent, hana: budget.DefaultPerson}},
		"none": {"", "limits: none", map[budget.Principal]budget.Limits{bot: {}, cat: {}, local: {}, hana: {}}},
		"some": {"", "limits: {agent: {calls: 5/s, bytes: 1KiB/h, waits: 0, pushes: none}, person: {calls: 0}}",
			func() map[budget.Principal]budget.Limits {
				agent := change(budget.DefaultAgent, func(l *budget.Limits) {
					l.Calls, l.Bytes, l.Waits, l.Pushes = budget.Rate{Count: 5, Per: time.Second}, budget.Rate{Count: 1024,
						Per: time.Hour}, 0, budget.Rate{}
				})
				return map[budget.Principal]budget.Limits{bot: agent, cat: agent, local: agent,
					hana: change(budget.DefaultPerson, func(l *budget.Limits) { l.Calls = budget.Rate{} })}
			}()},
		"an agent's own": {", limits: {streams: 3}", "limits: {agent: {sessions: 9}}", map[budget.Principal]budget.Limits{
			bot:   change(budget.DefaultAgent, func(l *budget.Limits) { l.Sessions = 9 }),
			local: change(budget.DefaultAgent, func(l *budget.Limits) { l.Sessions = 9 }),
			cat:   change(budget.DefaultAgent, func(l *budget.Limits) { l.Sessions, l.Streams = 9, 3 }),
			hana:  budget.DefaultPerson}},
		"an agent without any": {", limits: none", "", map[budget.Principal]budget.Limits{
			bot: budget.DefaultAgent, cat: {}, local: budget.DefaultAgent, hana: budget.DefaultPerson}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(twoAgents, "%s", c.cat, 1), "%s", c.limits, 1)
			cfg, _ := parseText(t, text)
			if diff := cmp.Diff(c.want, cfg.Budgets("local")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestConnectionsOfTheAPI(t *testing.T) {
	for text, want := range map[string]int{"": 16384, "limits: none": 16384, "limits: {connections: 64}": 64} {
		if cfg, _ := parseText(t, "agents: [{name: bot, token: \"${BOT_TOKEN}\"}]\n"+text+"\n"); cfg.Connections() != want {
			t.Errorf("%q: %d connections, want %d", text, cfg.Connections(), want)
		}
	}
	for _, text := range []string{"63", "none", "-1", "1000001", "64.5", "64 more"} {
		if err := new(Connections).SetText(text); err == nil {
			t.Errorf("%s connections are taken", text)
		}
	}
}

func TestLimitsArePrintedAsTheyAreWritten(t *testing.T) {
	cfg, _ := parseText(t, "agents: [{name: bot, token: \"${BOT_TOKEN}\"}]\nlimits: {agent: {calls: 7/h, bytes: 3MiB/s, waits: 2}}\n")
	asJSON, err := json.Marshal(cfg.Limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"agent":{"calls":"7/h","bytes":"3MiB/s","waits":2}}`; string(asJSON) != want {
		t.Errorf("got %s, want %s", asJSON, want)
	}
	asYAML, err := yaml.Marshal(cfg.Limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := "agent:\n  calls: 7/h\n  bytes: 3MiB/s\n  waits: 2\n"; string(asYAML) != want {
		t.Errorf("got %s, want %s", asYAML, want)
	}
}
