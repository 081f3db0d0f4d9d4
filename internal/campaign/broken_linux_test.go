package campaign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// brokenEnv names the variant that a program which was built with all of them is to be.
const brokenEnv = "COUNTERSIGN_CAMPAIGN_BROKEN"

// variant is one place where a rule is taken out of the gate, in variants of that name alone: isBroken says whether the
// program is one. A rule that is held in several places has a line for each.
type variant struct{ name, file, find, replace string }

var variants = []variant{
	{"an approver's role", "approval/may.go", `return a.Kind == Human && a.Approver`,
		`return a.Kind == Human && (a.Approver || isBroken("an approver's role"))`},
	{"agents do not decide", "approval/may.go", `func (a Actor) MayDecide() bool {`,
		`func (a Actor) MayDecide() bool { if isBroken("agents do not decide") && a.Kind == Agent { return true };`},
	{"a reason", "approval/may.go", `case r.RequireReason && d.Reason == "":`,
		`case r.RequireReason && d.Reason == "" && !isBroken("a reason"):`},
	{"a second yes", "approval/may.go", `case d.Approve && b.confirm && !d.Confirmed:`,
		`case d.Approve && b.confirm && !d.Confirmed && !isBroken("a second yes"):`},
	{"another's request is not cancelled", "approval/may.go", `case by.Kind == Agent && by.Name != r.Agent:`,
		`case by.Kind == Agent && by.Name != r.Agent && !isBroken("another's request is not cancelled"):`},
	{"only admins cancel", "approval/may.go", `by.Kind != Human || !by.Admin && !approvedIt):`,
		`by.Kind != Human || !by.Admin && !approvedIt && !isBroken("only admins cancel")):`},
	{"exactly what was shown", "approval/may.go", "\tcase !j.runs(r):",
		"\tcase !j.runs(r) && !isBroken(\"exactly what was shown\"):"},
	{"as many as the rule says", "approval/vote.go", `t.have[t.open] >= stages[t.open].Count {`,
		`(t.have[t.open] >= stages[t.open].Count || isBroken("as many as the rule says") && t.have[t.open] > 0) {`},
	{"of the group", "approval/vote.go", `if len(names) == 0 || belongs(who, names) {`,
		`if len(names) == 0 || belongs(who, names) || isBroken("of the group") {`},
	{"separate duties", "approval/vote.go", `(e.owner == "" || who.Name != e.owner)`,
		`(e.owner == "" || who.Name != e.owner || isBroken("separate duties"))`},
	{"votes count at the use", "approval/vote.go", "\treturn t.isMet(), err",
		"\treturn t.isMet() || isBroken(\"votes count at the use\"), err"},
	{"one denial ends it", "approval/vote.go", "\tif !d.Approve {\n\t\twho := \"\"",
		"\tif !d.Approve && !isBroken(\"one denial ends it\") {\n\t\twho := \"\""},
	{"a deadline", "approval/request.go", "return !d.IsZero() && !now.Before(d)",
		`return !d.IsZero() && !now.Before(d) && !isBroken("a deadline")`},
	{"a deadline", "internal/store/queries.go", "endRequest + `status = 'pending' AND expires_at > $2`,",
		"endRequest + `status = 'pending'` + whenNotBroken(\"a deadline\", ` AND expires_at > $2`),"},
	{"an approval lapses", "approval/request.go", "\tcase r.Live():\n\t\treturn r.UseBy",
		"\tcase r.Live() && !isBroken(\"an approval lapses\"):\n\t\treturn r.UseBy"},
	{"an approval lapses", "internal/store/queries.go",
		"  WHERE id = $2 AND ` + isUnused + ` AND use_by > $1`,\n\tconsumeDispatched",
		"  WHERE id = $2 AND ` + isUnused + whenNotBroken(\"an approval lapses\", ` AND use_by > $1`),\n\tconsumeDispatched"},
	{"used once", "approval/use.go", "ok, err := w.tx.Consume(r.ID, c.Dispatch, c.Runner)",
		"ok, err := true, error(nil)\n\tif !isBroken(\"used once\") {\n\t\tok, err = w.tx.Consume(r.ID, c.Dispatch, c.Runner)\n\t}"},
	{"a freeze denies", "approval/freeze.go", "e, err := w.frozenBy(j.call.Agent)\n\tif err != nil || e == nil {",
		"e, err := w.frozenBy(j.call.Agent)\n\tif err != nil || e == nil || isBroken(\"a freeze denies\") {"},
	{"a freeze holds beside the writer", "internal/store/sqlite/standing.go",
		`if !s.sure || s.frozen[""] || s.frozen[c.Agent] {`,
		`if (!s.sure || s.frozen[""] || s.frozen[c.Agent]) && !isBroken("a freeze holds beside the writer") {`},
	{"a freeze ends what waits", "approval/freeze.go", `(d.IsZero() || e.FrozenAt.Before(d)) {`,
		`(d.IsZero() || e.FrozenAt.Before(d)) && !isBroken("a freeze ends what waits") {`},
	{"a freeze ends grants", "approval/grant_use.go", `if gr.ID < e.ID && e.FrozenAt.Before(gr.ExpiresAt) {`,
		`if gr.ID < e.ID && e.FrozenAt.Before(gr.ExpiresAt) && !isBroken("a freeze ends grants") {`},
	// The database holds by itself that no more uses are counted than there are: what is taken out is the counting.
	{"a grant's uses", "approval/grant_use.go",
		"\tgr.Used++\n\tif err := w.tx.PutGrant(*gr); err != nil {\n\t\treturn Answer{}, err\n\t}\n\tif err := w.tx.PutGrantUse(u)",
		"\tif !isBroken(\"a grant's uses\") {\n\t\tgr.Used++\n\t}\n\tif err := w.tx.PutGrant(*gr); err != nil {\n\t\treturn Answer{}, err\n\t}\n\tif err := w.tx.PutGrantUse(u)"},
	{"a grant's time", "approval/grant_use.go", `if over, err := w.endOver(&gr); err != nil || over {`,
		`if over, err := w.endOver(&gr); err != nil || over && !isBroken("a grant's time") {`},
	{"a grant's args", "approval/grant_use.go", `if gr.ArgsHash != j.call.Args.Hash(gr.IgnoredArgs...) {`,
		`if gr.ArgsHash != j.call.Args.Hash(gr.IgnoredArgs...) && !isBroken("a grant's args") {`},
	{"a grant's args", "approval/grant_use.go", `gr.Terms.IsZero() && gr.ArgsHash != j.key.ArgsHash:`,
		`gr.Terms.IsZero() && gr.ArgsHash != j.key.ArgsHash && !isBroken("a grant's args"):`},
	{"a grant is revoked", "approval/grant_use.go", "\tif !gr.EndedAt.IsZero() {",
		"\tif !gr.EndedAt.IsZero() && !isBroken(\"a grant is revoked\") {"},
	{"a grant is revoked", "internal/store/queries.go", ` AND ended_at IS NULL ORDER BY deny DESC, id DESC` + "`,",
		"` + whenNotBroken(\"a grant is revoked\", ` AND ended_at IS NULL`) + ` ORDER BY deny DESC, id DESC`,"},
	{"how much a grant may vary", "approval/args/vary/vary.go", `!ok || n.Compare(most) > 0 {`,
		`(!ok || n.Compare(most) > 0) && !isBroken("how much a grant may vary") {`},
	{"a grant's total", "approval/args/vary/vary.go", `ok && with.Compare(total) <= 0`,
		`ok && (with.Compare(total) <= 0 || isBroken("a grant's total"))`},
	{"a denial is remembered", "approval/enter.go", "\tif recent.DeniedID != \"\" && w.tx.Now()",
		"\tif recent.DeniedID != \"\" && !isBroken(\"a denial is remembered\") && w.tx.Now()"},
	{"the policy denies", "approval/enter.go", `case v.Observe || v.Action == Allow:`,
		`case v.Observe || v.Action == Allow || v.Action == Deny && isBroken("the policy denies"):`},
	{"unknown tools are asked about", "approval/enter.go", "\tv := j.verdict\n\tout := Answer",
		"\tv := j.verdict\n\tif isBroken(\"unknown tools are asked about\") && v.ReasonCode == ReasonUnknownTool {\n" +
			"\t\tv.Action = Allow\n\t}\n\tout := Answer"},
	{"ambiguous args are asked about", "internal/policy/keycase.go",
		"\tv.Action, v.ReasonCode = approval.Quarantine, codeAmbiguousArgs",
		"\tif isBroken(\"ambiguous args are asked about\") {\n\t\treturn v\n\t}\n" +
			"\tv.Action, v.ReasonCode = approval.Quarantine, codeAmbiguousArgs"},
	{"LINE's signature", "channels/line/inbound.go", `return ok && signature != ""`,
		`return ok && signature != "" || isBroken("LINE's signature")`},
	{"Slack's signature", "channels/slack/inbound.go", "|| ok\n\t}\n\treturn ok\n",
		"|| ok\n\t}\n\treturn ok || isBroken(\"Slack's signature\")\n"},
	{"another's request is not shown", "approval/wait.go",
		`if err == nil && who.Kind != Human && (who.Kind != Agent || who.Name != r.Agent) {`,
		`if err == nil && who.Kind != Human && (who.Kind != Agent || who.Name != r.Agent) && !isBroken("another's request is not shown") {`},
	{"an edit's args", "approval/edit.go", `Args: j.call.Args.Canonical(), ArgsHash: j.key.ArgsHash,`,
		`Args: map[bool][]byte{true: r.Args, false: j.call.Args.Canonical()}[isBroken("an edit's args")], ArgsHash: j.key.ArgsHash,`},
	{"uses are on record", "approval/use.go", "\treturn r, w.audit(e)",
		"\tif isBroken(\"uses are on record\") {\n\t\treturn r, nil\n\t}\n\treturn r, w.audit(e)"},
	{"decisions are on record", "approval/decide.go", "\te.Actor, e.Decision, e.Reason = d.By.String(), word, d.Reason",
		"\te.Actor, e.Decision, e.Reason = d.By.String(), word, d.Reason\n" +
			"\tif isBroken(\"decisions are on record\") {\n\t\te.Type = EventChannelAlive\n\t}"},
	{"refusals are on record", "approval/decide.go", "\te.Data = marshal(data)\n",
		"\te.Data = marshal(data)\n\tif isBroken(\"refusals are on record\") {\n\t\treturn nil\n\t}\n"},
	{"allowed calls are on record", "internal/store/sqlite/standing.go", `d.events.append(&e)`,
		`(isBroken("allowed calls are on record") || d.events.append(&e))`},
	{"buttons go", "channels/outbox/cards.go",
		"case approval.Sent, approval.Delivered:\n\t\t\terr = w.queueEdit(n, ns)\n\t\t}\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\treturn w.release(next)",
		"case approval.Sent, approval.Delivered:\n\t\t\tif !isBroken(\"buttons go\") {\n\t\t\t\terr = w.queueEdit(n, ns)\n\t\t\t}\n\t\t}\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\treturn w.release(next)"},
	{"one key for all attempts", "channels/outbox/sender.go", `RetryKey: n.RetryKey,`,
		`RetryKey: map[bool]string{true: newUUID(), false: n.RetryKey}[isBroken("one key for all attempts")],`},
	{"endings are told apart", "approval/settle.go", `Resolution{ID: r.ID, Status: Expired, At: r.ExpiresAt,`,
		`Resolution{ID: r.ID, Status: map[bool]Status{true: Denied, false: Expired}[isBroken("endings are told apart")], At: r.ExpiresAt.Add(-map[bool]time.Duration{true: time.Millisecond}[isBroken("endings are told apart")]),`},
	{"extended once", "approval/extend.go", `case !r.ExtendedAt.IsZero():`,
		`case !r.ExtendedAt.IsZero() && !isBroken("extended once"):`},
	{"extended once", "internal/store/queries.go", "AND expires_at > $2 AND extended_at IS NULL`,",
		"AND expires_at > $2` + whenNotBroken(\"extended once\", ` AND extended_at IS NULL`),"},
	{"the feed keeps endings", "internal/store/queries.go",
		"AND resolved_seq IS NOT NULL AND acked_at IS NULL ORDER BY resolved_seq`,",
		"AND resolved_seq IS NOT NULL AND acked_at IS NULL` + whenBroken(\"the feed keeps endings\", ` AND status <> 'denied'`) + ` ORDER BY resolved_seq`,"},
	{"a delegation ends", "approval/need.go", `return d.EndedAt.IsZero() && !now.Before(d.From) && now.Before(d.Until)`,
		`return (d.EndedAt.IsZero() && now.Before(d.Until) || isBroken("a delegation ends")) && !now.Before(d.From)`},
	{"a delegation ends", "internal/store/queries.go", "\n  WHERE ended_at IS NULL AND until_at > $1 ORDER BY +id`,",
		"\n  WHERE ` + whenNotBroken(\"a delegation ends\", `ended_at IS NULL AND `) + `until_at > $1 ORDER BY +id`,"},
	{"one vote for two", "approval/vote.go", `if ok && !t.spokenFor(v.Person) && (v.For == "" || !t.spokenFor(v.For)) {`,
		`if ok && (!t.spokenFor(v.Person) && (v.For == "" || !t.spokenFor(v.For)) || isBroken("one vote for two")) {`},
	{"one vote for two", "approval/vote.go", `if d.Delegate != who.Name || t.spokenFor(d.Delegator) {`,
		`if d.Delegate != who.Name || t.spokenFor(d.Delegator) && !isBroken("one vote for two") {`},
	{"a page's key", "internal/web/key.go", `return !x.viewer.Session.Keyed ||`,
		`return !x.viewer.Session.Keyed || isBroken("a page's key") ||`},
	{"an agent's lock", "internal/store/postgres/locks.go", "\tif !ok {\n\t\treturn []queued{shared}",
		"\tif !ok || isBroken(\"an agent's lock\") {\n\t\treturn []queued{shared}"},
	{"a freeze holds beside transactions", "internal/store/postgres/record.go", `strings.NewReplacer("NOW_SQL",`,
		`strings.NewReplacer("frozen = 1", map[bool]string{true: "frozen = 2", false: "frozen = 1"}` +
			`[isBroken("a freeze holds beside transactions")], "NOW_SQL",`},
	{"what became of a commit", "internal/store/postgres/update.go", "\tif committed {",
		"\tif committed || isBroken(\"what became of a commit\") {"},
	{"synced, then answered", "internal/store/sqlite/record.go", `if j != nil && j.durability == durable {`,
		`if j != nil && j.durability == durable && !isBroken("synced, then answered") {`},
	{"committed, then answered", "internal/store/sqlite/writer.go",
		"\t\tif _, err := w.c.Stmt(commit).Exec(); err != nil {",
		"\t\tif isBroken(\"committed, then answered\") && w.seq%16 == 0 {\n\t\t\tif err := w.c.Exec(\"ROLLBACK\"); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n" +
			"\t\t} else if _, err := w.c.Stmt(commit).Exec(); err != nil {"},
}

// bringsOut are the faults without which some variants do as the gate does.
var bringsOut = map[string]string{
	"votes count at the use": "reload", "one key for all attempts": "platforms", "committed, then answered": "kill",
	"synced, then answered": "power", "what became of a commit": "backends cut",
}

// among are the operations among which some variants do soon enough what the gate does not: the others are left out.
var among = map[string]string{
	"a grant's time": "batch wait grant", "a grant is revoked": "batch wait grant revoke",
	"a grant's total": "batch wait grant", "one key for all attempts": "batch", "extended once": "wait extend",
}

// onPostgreSQL are the variants that lack a rule of several programs; hasPostgreSQL says that the test has those.
var (
	onPostgreSQL  = []string{"an agent's lock", "a freeze holds beside transactions", "what became of a commit"}
	hasPostgreSQL bool
)

// helpers is the file that each package with a broken place gets.
const helpers = `package %s

import "os"

func isBroken(name string) bool { return os.Getenv("` + brokenEnv + `") == name }

func whenBroken(name, text string) string {
	if isBroken(name) {
		return text
	}
	return ""
}

func whenNotBroken(name, text string) string {
	if isBroken(name) {
		return ""
	}
	return text
}

var _, _ = whenBroken, whenNotBroken
`

var packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)

// breakAll returns the files of the program that variants change, as they are then, by their path from the root.
func breakAll(t *testing.T) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, v := range variants {
		text, ok := changed[v.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join("..", "..", v.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
			name := packageClause.FindStringSubmatch(text)[1]
			changed[filepath.Join(filepath.Dir(v.file), "broken.go")] = fmt.Sprintf(helpers, name)
		}
		if n := strings.Count(text, v.find); n != 1 {
			t.Errorf("%s: %q is %d times in %s, want once", v.name, v.find, n, v.file)
		}
		changed[v.file] = strings.Replace(text, v.find, v.replace, 1)
	}
	return changed
}

func variantNames() (names []string) {
	for _, v := range variants {
		if !slices.Contains(names, v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// The variants are of the gate as it is: what they take out is there, in one place each.
func TestEachBrokenVariantHasItsPlace(t *testing.T) {
	breakAll(t)
	if n := len(variantNames()); n < 25 {
		t.Errorf("only %d variants", n)
	}
}

// buildBroken builds this test with a gate that has all variants in it.
func buildBroken(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for path, text := range breakAll(t) {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(root, path)] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "broken.test")
	args := []string{"test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program}
	if hasPostgreSQL {
		args = append(args, "-tags", "postgres")
	}
	build := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// Each variant of the gate that lacks a rule is caught by the campaign within a minute.
func TestEachBrokenVariantIsCaught(t *testing.T) {
	if !testkit.Nightly() {
		return // a quarter of an hour: nightly, and by hand
	}
	program := buildBroken(t)
	for _, name := range variantNames() {
		test := "^TestCampaign$"
		if slices.Contains(onPostgreSQL, name) {
			if test = "^TestCampaignOnPostgreSQL$"; !hasPostgreSQL {
				continue
			}
		}
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*testkit.Patience)
			defer cancel()
			run := exec.CommandContext(ctx, program, "-test.run", test, "-first", "-seed", "7", "-for", "1m",
				"-round", "8s", "-faults", bringsOut[name], "-ops", among[name])
			run.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := run.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "with -seed") {
				t.Fatalf("not caught: %v\n%s", err, out)
			}
			t.Logf("caught in %s by %s", time.Since(began).Round(time.Second), firstRule(string(out)))
		})
	}
}

// firstRule is the first violation that a campaign has told.
func firstRule(out string) string {
	_, after, _ := strings.Cut(out, "with -seed")
	lines := strings.SplitN(after, "\n", 3)
	if len(lines) < 2 {
		return ""
	}
	return strings.TrimSpace(lines[1])
}
