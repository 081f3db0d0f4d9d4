package app_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// inGroups has hana in finance, and finance approve payments.
func inGroups(text string) string {
	text = replacing("slack: U02HANA,", "slack: U02HANA, groups: [finance],")(text)
	return replacing("    - name: transfers\n", "    - name: transfers\n      approvals: [{group: finance}]\n")(text)
}

func (w *world) as(token string) *client.Client { return w.client(token) }

// lineCount is how many of hana's LINE messages hold a text.
func (w *world) lineCount(text string) int {
	n := 0
	for _, m := range w.chat.LINE.Chat("hana") {
		if m.FromBot && strings.Contains(string(m.JSON), text) {
			n++
		}
	}
	return n
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read() string {
	w.t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// Who is in a group, and whose agent it is, is what the configuration in force says.
func TestGroupsAndOwnersAreThoseOfNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inGroups)
	ken := w.as("KEN_TOKEN")
	id := w.expect(transfer(2100), client.AnswerPending).ApprovalID
	if _, err := ken.Decide(w.ctx, id, client.Approve, ""); err == nil {
		t.Fatal("ken approved, who is not in finance")
	}
	w.reload(replacing("slack: U03KEN,", "slack: U03KEN, groups: [finance],"))
	if _, err := ken.Decide(w.ctx, id, client.Approve, ""); err != nil {
		t.Errorf("ken is in finance now: %v", err)
	}
	if got := w.status(id).Status; got != "approved" {
		t.Errorf("status %s", got)
	}

	w.reload(func(text string) string {
		text = replacing(`token: "${AGENT_TOKEN}"}`, `token: "${AGENT_TOKEN}", owner: ken}`)(text)
		return replacing("approvals: [{group: finance}]", "approvals: [{group: finance}]\n      separate_duties: true")(text)
	})
	id = w.expect(transfer(2101), client.AnswerPending).ApprovalID
	if _, err := ken.Decide(w.ctx, id, client.Approve, ""); err == nil {
		t.Error("ken approved a call of ken's own agent")
	}
	if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil {
		t.Error(err)
	}
}

func TestRule10_AdminsAreToldOnceOfAConfigurationThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const told = "can't be used, so the previous one stays in force"
	good := w.read()
	broken := strings.Replace(good, "name: reading", "nane: reading", 1)
	reload := func(text string, want int) {
		t.Helper()
		w.write(text)
		for range 2 {
			err := w.app.Reload(w.ctx)
			if broken := text != good; (err != nil) != broken {
				t.Fatalf("reload: %v", err)
			}
		}
		w.lineCard("nane", 1)
		w.eventually("what the admins are told", func() bool { return w.lineCount(told) >= want })
		if got := w.lineCount(told); got != want {
			t.Errorf("told %d times, want %d", got, want)
		}
	}
	reload(broken, 1)
	card := w.lineCard(told, 1)
	if !strings.Contains(string(card.JSON), `countersign.yaml:20:8: unknown key`) {
		t.Errorf("told %s", card.JSON)
	}
	reload(broken, 1)
	reload(strings.Replace(broken, "nane", "naem", 1), 2)
	reload(good, 2)
	reload(broken, 3) // it was mended in between
	if len(w.audit("policy_reload_failed")) < 7 {
		t.Error("not every failed reload is on record")
	}
}

// What is told of is what was read, also where the file is written before it is told.
func TestRule10_AdminsAreToldOfEachConfigurationThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.read()
	broken := func(key string) string { return strings.Replace(good, "name: reading", key+": reading", 1) }
	w.stop()
	w.trouble = func() error { // asked between the two
		if err := os.WriteFile(w.path, []byte(broken("naem")), 0o600); err != nil {
			t.Error(err)
		}
		return nil
	}
	w.start()
	w.write(broken("nane"))
	for range 2 {
		if err := w.app.Reload(w.ctx); err == nil {
			t.Fatal("it was reloaded")
		}
	}
	w.lineCard("nane", 1)
	w.lineCard("naem", 1)
	if got := w.lineCount("can't be used, so the previous one stays in force"); got != 2 {
		t.Errorf("told %d times of two", got)
	}
}

func TestRule10_AdminsAreToldOfRulesThatLetMoreThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inGroups)
	w.reload(replacing("      approvals: [{group: finance}]\n", ""))
	w.told("the new rules let more calls through")
	w.told(`an approval out of finance is no longer needed`)
	w.reload(replacing("use_within: 15m", "use_within: 5m"))
	w.reload(func(text string) string { return text + "# a comment\n" })
	w.expect(transfer(2100), client.AnswerPending)
	w.lineCard("2100", 1) // whatever was queued before has come
	if n := w.lineCount("let more calls through"); n != 1 {
		t.Errorf("told %d times of what is not looser", n)
	}
}

func TestRule10_AdminsAreToldOfLooserRulesInTheirLanguage(t *testing.T) {
	t.Parallel()
	for locale, want := range map[string][]string{
		"ja":    {"ルールが以前より緩くなりました", "ルール「transfers」：finance による承認が不要になりました"},
		"th":    {"กฎใหม่ปล่อยให้ทำงานโดยไม่ถามมากกว่าเดิม", "กฎ “transfers”: ไม่ต้องได้รับอนุมัติจาก finance แล้ว"},
		"zh-TW": {"新規則比先前寬鬆", "規則「transfers」：不再需要 finance 的核准"},
	} {
		w := newWorld(t, inGroups, replacing("slack: U02HANA,", "slack: U02HANA, locale: "+locale+","))
		w.reload(replacing("      approvals: [{group: finance}]\n", ""))
		for _, text := range want {
			w.told(text)
		}
		if n := w.lineCount("no longer needed"); n != 0 {
			t.Errorf("%s: told in English", locale)
		}
	}
}

func TestRule10_AdminsAreToldOfRequestsThatNobodyIsLeftToApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inGroups)
	id := w.expect(transfer(2100), client.AnswerPending).ApprovalID
	w.reload(func(text string) string {
		text = replacing("slack: U02HANA, groups: [finance],", "slack: U02HANA,")(text)
		return replacing("approvals: [{group: finance}]", "approvals: [{approvers: [ken]}]")(text)
	})
	w.told("Nobody is left who can approve bot's transfer_credits")
	w.told(id[len(id)-6:])
	w.reload(func(text string) string { return text + "# a comment\n" })
	w.expect(transfer(2101), client.AnswerPending)
	if n := w.lineCount("Nobody is left"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestRule10_AdminsAreToldOfGrantsOfMoreThanAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing("    - name: transfers\n", "    - name: transfers\n      allow_skip: true\n"))
	ken := w.as("KEN_TOKEN")
	for cents, terms := range map[int]client.GrantTerms{2100: {For: time.Hour}, 2101: {For: 8 * time.Hour}} {
		id := w.expect(transfer(cents), client.AnswerPending).ApprovalID
		if _, err := ken.Decide(w.ctx, id, client.Approve, "", client.GrantFor(terms)); err != nil {
			t.Fatal(err)
		}
	}
	card := w.lineCard("without asking", 1)
	if !strings.Contains(string(card.JSON), "ken let bot run transfer_credits without asking (until ") {
		t.Errorf("told %s", card.JSON)
	}
	w.expect(transfer(2102), client.AnswerPending)
	w.lineCard("2102", 1) // whatever was queued before has come
	if n := w.lineCount("without asking ("); n != 1 {
		t.Errorf("told %d times", n)
	}
}
