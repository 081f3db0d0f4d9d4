package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/internal/locale/phrases"
)

func TestLoosened(t *testing.T) {
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", `rules: [{tools: [a], action: deny}]`, `rules: [{tools: [a], action: deny}]`, nil},
		{"stricter", `rules: [{tools: [a]}, {tools: [b], action: allow}]`,
			`rules: [{tools: [a], action: deny}, {tools: [b]}, {tools: [c], action: deny}]`, nil},
		{"mode", `mode: enforce`, `mode: observe`, []string{"mode went from enforce to observe: every call is allowed"}},
		{"mode back", `mode: observe`, `mode: enforce`, nil},
		{"terms", `{use_within: 5m, remember_denial: 1h, max_pending: 3}`, `{use_within: 10m, remember_denial: 0}`, []string{
			"use_within went from 5m to 10m: an approval can be used longer",
			"remember_denial went from 1h to 0s: a denied call can be asked again sooner",
			"max_pending went from 3 to no limit",
		}},
		{"max_pending", `max_pending: 3`, `max_pending: 30`, []string{"max_pending went from 3 to 30"}},
		{"unknown tools", `levels: {high: {timeout: 5m, require_reason: true}}`, ``, []string{
			"calls that no rule covers: timeout went from 5m to 30m",
			"calls that no rule covers: a reason is no longer required",
		}},
		{"action", `rules: [{name: w, tools: [a], action: deny}, {tools: [b]}]`,
			`rules: [{name: w, tools: [a]}, {tools: [b], action: allow}]`, []string{
				`rule "w": action went from deny to ask`,
				"rule 2: action went from ask to allow",
			}},
		{"limits", `rules: [{name: w, tools: [a], risk: critical}]`,
			`rules: [{name: w, tools: [a], risk: medium, ignore_args: [note]}]`, []string{
				`rule "w": risk went from critical to medium`,
				`rule "w": timeout went from 30m to 1h`,
				`rule "w": a reason is no longer required`,
				`rule "w": ignore_args now has note`,
			}},
		{"level", `rules: [{name: w, tools: [a], risk: medium}]`,
			`{levels: {medium: {action: allow}}, rules: [{name: w, tools: [a], risk: medium}]}`, []string{
				`rule "w": action went from ask to allow`,
			}},
		{"conditions", `rules: [{name: w, tools: [a], action: deny, when: args.n > 1}]`,
			`rules: [{name: w, tools: [a], action: deny, when: args.n > 5}]`, []string{
				`rule "w": its conditions changed, so calls that it stopped may pass it`,
			}},
		{"conditions of allow", `rules: [{name: w, tools: [a], action: allow, when: args.n > 1}]`,
			`rules: [{name: w, tools: [a], action: allow}]`, []string{
				`rule "w" allows without conditions now`,
			}},
		{"unconditional", `rules: [{name: w, tools: [a], action: deny, when: args.n > 1}]`,
			`rules: [{name: w, tools: [a], action: deny}]`, nil},
		{"removed", `rules: [{name: w, tools: [a, "s/b"], action: deny}]`, ``, []string{
			`no rule covers a, s/b any more, which rule "w" denied`,
		}},
		{"removed before an allow", `rules: [{name: w, tools: [a]}, {name: all, tools: ["*"], action: allow}]`,
			`rules: [{name: all, tools: ["*"], action: allow}]`, []string{
				`rule "all" now allows a, which rule "w" asked about`,
			}},
		{"removed quarantine", `rules: [{name: w, tools: [a]}]`, ``, nil},
		{"a tool taken out", `rules: [{name: w, tools: [a, b], action: deny}]`,
			`rules: [{name: w, tools: [a], action: deny}]`, []string{
				`no rule covers b any more, which rule "w" denied`,
			}},
		{"a new allow", ``, `rules: [{name: r, tools: [read_file, "list_*"], action: allow}]`, []string{
			`rule "r" now allows read_file, list_*, which no rule covered`,
		}},
		{"a new allow with a condition", ``, `rules: [{name: r, tools: [a], action: allow, when: args.n < 5}]`, []string{
			`rule "r" may now allow a, which no rule covered`,
		}},
		{"a new allow for one agent", `rules: [{name: w, tools: [a], action: deny}]`,
			`rules: [{name: r, tools: ["*"], agents: [bot], action: allow}, {name: w, tools: [a], action: deny}]`, []string{
				`rule "r" now allows * by bot, which no rule covered`,
				`rule "r" now allows a by bot, which rule "w" denied`,
			}},
		{"an allow widened", `rules: [{name: r, tools: [a], action: allow}]`,
			`rules: [{name: r, tools: [a, b], action: allow}]`, []string{
				`rule "r" now allows b, which no rule covered`,
			}},
		{"an allow for one server made general", `rules: [{name: r, tools: [s/a], action: allow}]`,
			`rules: [{name: r, tools: [a], action: allow}]`, []string{
				`rule "r" now allows a, which no rule covered`,
			}},
		{"order", `rules: [{name: w, tools: ["delete_*"], action: deny}, {name: r, tools: ["*_file"], action: allow}]`,
			`rules: [{name: r, tools: ["*_file"], action: allow}, {name: w, tools: ["delete_*"], action: deny}]`, []string{
				`rule "r" now allows delete_*_file, which rule "w" denied`,
			}},
		{"the allow was there before",
			`rules: [{name: r, tools: [a], action: allow, when: args.n < 5}, {name: w, tools: [a], action: deny}]`,
			`rules: [{name: r, tools: [a], action: allow, when: args.n < 5}, {name: w, tools: [a], action: deny}]`, nil},
		{"a lower count", `rules: [{name: w, tools: [a], approvals: [{group: finance, count: 2}]}]`,
			`rules: [{name: w, tools: [a], approvals: [{group: finance}]}]`, []string{
				`rule "w": approvals needed out of finance went from 2 to 1`,
			}},
		{"a stage less", `rules: [{name: w, tools: [a], approvals: [{group: finance, count: 2}, {group: security}]}]`,
			`rules: [{name: w, tools: [a], approvals: [{group: finance, count: 2}]}]`, []string{
				`rule "w": an approval out of security is no longer needed`,
			}},
		{"any approver in place of a group", `rules: [{name: w, tools: [a], approvals: [{group: finance, count: 2}]}]`,
			`rules: [{name: w, tools: [a], approvals: [{count: 2}]}]`, []string{
				`rule "w": 2 approvals out of finance are no longer needed`,
			}},
		{"more people who may", `rules: [{name: w, tools: [a], approvers: [hana]}]`,
			`rules: [{name: w, tools: [a], approvers: [hana, ken]}]`, []string{
				`rule "w": an approval out of hana is no longer needed`,
			}},
		{"fewer of any", `rules: [{name: w, tools: [a], approvals: [{count: 3}]}]`, `rules: [{name: w, tools: [a]}]`,
			[]string{
				`rule "w": approvals needed went from 3 to 1`,
			}},
		{"separate duties and confirm", `rules: [{name: w, tools: [a], separate_duties: true, confirm: true}]`,
			`rules: [{name: w, tools: [a], separate_duties: false}]`, []string{
				`rule "w": who owns the agent may approve its calls`,
				`rule "w": an approval is no longer asked for once more`,
			}},
		{"a passkey", `rules: [{name: w, tools: [a], step_up: passkey}]`, `rules: [{name: w, tools: [a]}]`, []string{
			`rule "w": an approval no longer takes a passkey`,
		}},
		{"a passkey more", `rules: [{name: w, tools: [a]}]`, `rules: [{name: w, tools: [a], step_up: passkey}]`, nil},
		{"a rule that overrides its level's passkey", `{levels: {high: {step_up: passkey}}, rules: [{name: w, tools: [a]}]}`,
			`{levels: {high: {step_up: passkey}}, rules: [{name: w, tools: [a], step_up: none}]}`, []string{
				`rule "w": an approval no longer takes a passkey`,
			}},
		{"an escalation", `rules: [{name: w, tools: [a], approvers: [hana], escalate: [{after: 20m, to: [leads, boss]}]}]`,
			`rules: [{name: w, tools: [a], approvers: [hana], escalate: [{after: 10m, to: [leads, ken]}, {after: 1h, to: [boss]}]}]`, []string{
				`rule "w": after 10m leads may approve too`,
				`rule "w": after 10m ken may approve too`,
			}},
		{"an escalation where anybody may approve", `rules: [{name: w, tools: [a]}]`,
			`rules: [{name: w, tools: [a], approvers: [hana], escalate: [{after: 20m, to: [leads]}]}]`, nil},
		{"a level's need", `levels: {high: {approvals: [{group: finance, count: 2}]}}`, ``, []string{
			`calls that no rule covers: 2 approvals out of finance are no longer needed`,
		}},
		{"the guard's need", `{guard: gate_files, levels: {critical: {approvers: [hana]}}}`, `guard: gate_files`, []string{
			`guard: an approval out of hana is no longer needed`,
		}},
		{"a stricter need", `rules: [{name: w, tools: [a], approvers: [finance], escalate: [{after: 10m, to: [ken]}]}]`,
			`rules: [{name: w, tools: [a], approvals: [{group: security}, {group: finance, count: 2}], escalate: [{after: 20m, to: [ken]}], separate_duties: true, confirm: true}]`, nil},
		{"another rule in its place", `rules: [{name: w, tools: [a, b], approvals: [{group: finance, count: 2}]}]`,
			`rules: [{name: v, tools: [a, b]}]`, []string{
				`rule "v" now asks about a, b, and it takes less to approve them than under rule "w"`,
			}},
		{"another rule before it", `rules: [{name: w, tools: [a], confirm: true}]`,
			`rules: [{name: v, tools: [a], when: args.n > 1}, {name: w, tools: [a], confirm: true}]`, []string{
				`rule "v" may now ask about a, and it takes less to approve them than under rule "w"`,
			}},
		{"no rule in its place", `rules: [{name: w, tools: [a], confirm: true}]`, ``, []string{
			`no rule covers a any more, and it takes less to approve them than under rule "w"`,
		}},
		{"a rule where level high takes more", `levels: {high: {approvers: [hana]}}`,
			`{levels: {high: {approvers: [hana]}}, rules: [{name: w, tools: [a], risk: medium}]}`, []string{
				`rule "w" now asks about a, and it takes less to approve them than where no rule covers them`,
			}},
		{"a stricter rule before it", `rules: [{name: w, tools: [a], confirm: true}]`,
			`rules: [{name: v, tools: [a], confirm: true, separate_duties: true}, {name: w, tools: [a], confirm: true}]`, nil},
		{"the same need in another way", `rules: [{name: w, tools: [a], approvers: [hana, ken]}]`,
			`rules: [{name: w, tools: [a], approvals: [{approvers: [ken, hana]}]}]`, nil},
		{"a level that gains elicitation", `levels: {medium: {elicitation: false}, high: {elicitation: true}}`,
			`levels: {medium: {elicitation: true}, high: {elicitation: true}}`, []string{
				"level medium: elicitation is on: the person at the agent's keyboard may decide",
			}},
		{"a level that loses elicitation", `levels: {medium: {elicitation: true}}`, ``, nil},
		{"audit", `rules: [{name: r, tools: [a], action: allow, audit: strict}, {name: w, tools: [b], audit: strict}]`,
			`rules: [{name: r, tools: [a], action: allow}, {name: w, tools: [b], action: deny}]`, []string{
				`rule "r": audit went from strict to normal: an allowed call may be sent before it is on record`,
			}},
		{"audit made strict", `rules: [{name: r, tools: [a], action: allow}]`,
			`rules: [{name: r, tools: [a], action: allow, audit: strict}]`, nil},
		{"a method's rule taken out",
			`rules: [{name: w, method: resources/read, action: deny}, {name: q, method: "prompts/*", tools: [files/*]}]`, ``,
			[]string{
				`no rule covers resources:read any more, which rule "w" denied`,
				`no rule covers files/prompts:get any more, which rule "q" asked about`,
			}},
		{"rules of two methods that change places", `rules: [{method: prompts/get, action: deny}, {method: resources/read}]`,
			`rules: [{method: resources/read}, {method: prompts/get, action: deny}]`, nil},
		{"a method allowed", `rules: [{name: w, method: resources/read, action: deny}]`,
			`rules: [{name: r, method: "resources/*", tools: ["*"], action: allow}]`, []string{
				`rule "r" now allows resources:read, which rule "w" denied`,
				`rule "r" now allows resources:*, which no rule covered`,
			}},
		{"a known method allowed, which it was", ``,
			`rules: [{name: r, method: resources/read, tools: ["*"], action: allow}]`, nil},
		{"an unknown method asked about, which was refused", ``, `rules: [{name: r, method: odd/one}]`, []string{
			`rule "r" now asks about odd:one, which no rule covered`,
		}},
		{"a rule made one of a method", `rules: [{name: w, tools: ["*"], action: deny}]`,
			`rules: [{name: w, method: prompts/get, action: deny}]`, []string{
				`no rule covers * any more, which rule "w" denied`,
			}},
		{"an agent taken out", `rules: [{name: w, tools: [a], action: deny}]`,
			`rules: [{name: w, tools: [a], agents: [bot], action: deny}]`, []string{
				`no rule covers a any more, which rule "w" denied`,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			block := func(s string) *Policy {
				if s != "" && s[0] != '{' {
					s = "{" + s + "}"
				}
				return compile(t, "policy: "+s+"\n")
			}
			got := phrases.InEnglish(Loosenings(block(test.old), block(test.new)))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Loosenings(nil, compile(t, "")); got != nil {
		t.Errorf("from nothing: %v", got)
	}
}
