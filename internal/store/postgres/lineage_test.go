//go:build postgres

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/approval"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/testkit"
)

// member is a store of a fleet with its gate.
type member struct {
	*DB
	gate     *approval.Gate
	restored int // how often it has ended what was open
}

func join(t *testing.T, o Options) *member {
	t.Helper()
	m := &member{}
	o.Restored = func(ctx context.Context, tx approval.Tx) error {
		m.restored++
		return m.gate.In(ctx, tx).Freezes().Restored()
	}
	m.DB = open(t, o)
	m.gate, _ = gateOn(m.DB)
	return m
}

// approve has a person approve a call.
func (m *member) approve(t *testing.T, c approval.Call) (id string) {
	t.Helper()
	out, err := m.gate.Check(t.Context(), c)
	if err == nil {
		_, err = m.gate.Decide(t.Context(), approval.Decision{RequestID: out.Request.ID, Approve: true, By: hana,
			Via: approval.ViaAPI})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Request.ID
}

func (m *member) check(t *testing.T, c approval.Call, want approval.AnswerKind) *approval.Request {
	t.Helper()
	out, err := m.gate.Check(t.Context(), c)
	if err != nil || out.Kind != want {
		t.Fatalf("%q, %v, want %s", out.Kind, err, want)
	}
	return out.Request
}

// Rule 2.4: an approval is used once, also where a standby takes over that has not heard of its use. Whichever program
// notices ends what was open, before anything else is done, and once.
func TestRule4_AStandbyThatLacksAUseLetsNothingThrough(t *testing.T) {
	t.Parallel()
	primary, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	standby, err := postgrestest.StartOn("pg_basebackup", "-d", primary.URL("postgres"), "-R", "-c", "fast", "--no-sync")
	if err != nil {
		t.Fatal(errors.Join(err, primary.Stop()))
	}
	defer func() {
		if err := errors.Join(standby.Stop(), primary.Remove()); err != nil {
			t.Error(err)
		}
	}()
	at := strings.Replace(primary.URL("postgres"), primary.Port, primary.Port+",127.0.0.1:"+standby.Port, 1)
	a, b := join(t, Options{URL: at}), join(t, Options{URL: at})
	used, waits := callOf(t, "bot", "send", `{"a":1}`), callOf(t, "bot", "send", `{"a":2}`)
	a.approve(t, used)
	id := a.check(t, waits, approval.AnswerPending).ID
	testkit.Eventually(t, "the standby has the approval", func() bool {
		return standby.Execute(`DO $$ BEGIN
  ASSERT (SELECT count(*) FROM approval_requests WHERE status <> 'denied') = 2; END $$`) == nil
	})
	for _, sql := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		if err := standby.Execute(sql); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the standby hears nothing any more", func() bool {
		return primary.Execute(`DO $$ BEGIN ASSERT NOT EXISTS (SELECT 1 FROM pg_stat_replication); END $$`) == nil
	})
	b.check(t, used, approval.AnswerApproved) // of which the standby does not hear
	primary.Kill(t)
	if err := standby.Execute(`SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the store is there again", func() bool {
		return a.Update(t.Context(), approval.OfNothing(), func(approval.Tx) error { return nil }) == nil
	})
	again := b.check(t, used, approval.AnswerPending)
	if r, err := a.gate.Request(t.Context(), hana, id); err != nil || r.Status != approval.Cancelled ||
		r.EndCode != approval.EndRestored {
		t.Errorf("%v %q, %v", r.Status, r.EndCode, err)
	}
	if a.restored+b.restored != 1 {
		t.Errorf("ended %d and %d times, want once", a.restored, b.restored)
	}
	a.check(t, used, approval.AnswerPending)
	if r := b.check(t, waits, approval.AnswerPending); r.ID == id || r.ID < again.ID {
		t.Errorf("%s and %s", r.ID, again.ID)
	}
}

// Rule 2.4: neither does a database that was made from a copy, nor a record without a transaction slip past it.
func TestRule4_ACopyOfADatabaseLetsNothingThrough(t *testing.T) {
	t.Parallel()
	at := database(t)
	first := join(t, Options{URL: at})
	c := callOf(t, "bot", "send", `{"a":1}`)
	first.approve(t, c)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	config, err := pgconn.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	copied := join(t, Options{URL: server.Database(t, config.Database)})
	event := approval.Event{Type: approval.EventCallAllowed, Agent: "bot"}
	if copied.RecordAllowed(approval.AllowedCall{Agent: "bot"}, event) {
		t.Error("an allowed call went on record before the copy was noticed")
	}
	copied.check(t, c, approval.AnswerPending)
	if !copied.RecordAllowed(approval.AllowedCall{Agent: "bot"}, event) {
		t.Error("and did not after")
	}
	if copied.restored != 1 {
		t.Errorf("ended %d times", copied.restored)
	}
}

// Where no server takes over that lacks what was committed, one that takes over ends nothing; a copy does all the same.
func TestLosslessServersEndNothing(t *testing.T) {
	for _, test := range []struct {
		was      string
		lossless bool
		want     int
	}{
		{"lineage || '0'", false, 1},
		{"lineage || '0'", true, 0},
		{"'0' || lineage", true, 1},
		{"lineage", false, 0},
	} {
		m := join(t, Options{Lossless: test.lossless})
		if _, err := m.pool.Exec(t.Context(), `UPDATE store_state SET lineage = `+test.was); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m.check(t, callOf(t, "bot", "send", `{"a":1}`), approval.AnswerPending)
		}
		if m.restored != test.want {
			t.Errorf("%+v: ended %d times", test, m.restored)
		}
	}
}

// Whoever has put a database back that looks as it did says so, and nothing of it lives again: programs may run, and
// may have been told that no server takes over that lacks what was committed.
func TestRule4_ADatabaseThatWasPutBackIsMarked(t *testing.T) {
	at := database(t)
	m := join(t, Options{URL: at, Lossless: true})
	c := callOf(t, "bot", "send", `{"a":1}`)
	m.approve(t, c)
	name, err := MarkRestored(t.Context(), at)
	if err != nil || !strings.HasPrefix(name, "postgres://") || strings.Contains(name, "@") {
		t.Errorf("%q, %v", name, err)
	}
	for range 2 {
		m.check(t, c, approval.AnswerPending)
	}
	if m.restored != 1 {
		t.Errorf("ended %d times", m.restored)
	}
	config, err := pgconn.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	empty := strings.Replace(at, config.Database, "postgres", 1)
	if _, err := MarkRestored(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "There is no store in") {
		t.Errorf("where there is no store: %v", err)
	}
}

// What could not be ended lets nothing through, and is tried again.
func TestRule4_WhatCannotBeEndedIsTriedAgain(t *testing.T) {
	m := join(t, Options{})
	c := callOf(t, "bot", "send", `{"a":1}`)
	m.approve(t, c)
	end, full := m.DB.restored, errors.New("full")
	m.DB.restored = func(context.Context, approval.Tx) error { return full }
	if _, err := m.pool.Exec(t.Context(), `UPDATE store_state SET lineage = 'another'`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := m.gate.Check(t.Context(), c); !errors.Is(err, full) {
			t.Fatalf("%s, %v", out.Kind, err)
		}
	}
	m.DB.restored = end
	m.check(t, c, approval.AnswerPending)
}

// lesserRole makes a role that may use a database's tables, but may not ask its server all, and returns the URL with
// it.
func lesserRole(t *testing.T, at string) (url string) {
	t.Helper()
	role := fmt.Sprint("lesser_", server.Next())
	for _, sql := range []string{"CREATE ROLE " + role + " LOGIN", "GRANT ALL ON ALL TABLES IN SCHEMA public TO " + role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO " + role, "GRANT ALL ON SCHEMA public TO " + role,
		"REVOKE EXECUTE ON FUNCTION pg_walfile_name, pg_control_system FROM PUBLIC"} {
		execute(t, at, sql)
	}
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), at)
		if err == nil {
			_, err = c.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
			err = errors.Join(err, c.Close(context.Background()))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return strings.Replace(at, "tester@", role+"@", 1)
}

// A database that does not tell its timeline is taken to be another one each time it was started; one that tells
// nothing at all of itself is known by its table.
func TestADatabaseThatTellsLittle(t *testing.T) {
	at := database(t)
	log := &testkit.Buffer{}
	d, err := Open(t.Context(), Options{URL: lesserRole(t, at), Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	var lineage string
	if err := d.pool.QueryRow(t.Context(), `SELECT lineage FROM store_state`).Scan(&lineage); err != nil {
		t.Error(err)
	}
	if !regexp.MustCompile(`^\d+\.\d+/\|s[\d.]+$`).MatchString(lineage) {
		t.Errorf("%q", lineage)
	}
	if !strings.Contains(log.String(), "replicas.failover: lossless") {
		t.Errorf("it does not say what to do: %s", log)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Programs whose users may not ask the same of the server are of one lineage all the same.
func TestProgramsOfDifferentRights(t *testing.T) {
	t.Parallel()
	at := database(t)
	a, b := join(t, Options{URL: at}), join(t, Options{URL: lesserRole(t, at)})
	for n := range 3 {
		a.check(t, callOf(t, fmt.Sprint("bot", n), "send", `{"a":1}`), approval.AnswerPending)
		b.check(t, callOf(t, fmt.Sprint("robot", n), "send", `{"a":1}`), approval.AnswerPending)
	}
	if a.restored+b.restored != 0 {
		t.Errorf("ended %d and %d times", a.restored, b.restored)
	}
	execute(t, at, `UPDATE store_state SET lineage = '0' || lineage`)
	b.check(t, callOf(t, "bot", "send", `{"a":2}`), approval.AnswerPending)
	a.check(t, callOf(t, "bot", "send", `{"a":3}`), approval.AnswerPending)
	if a.restored != 0 || b.restored != 1 {
		t.Errorf("ended %d and %d times, want once", a.restored, b.restored)
	}
}

// Rule 2.4: a freeze, and a take-over, ends what another program has made by a clock that was ahead of this one's.
func TestRule4_IDsOfOthersMayBeAhead(t *testing.T) {
	t.Parallel()
	for _, takenOver := range []bool{false, true} {
		url := database(t)
		setClock(t, url, 0)
		a := join(t, Options{URL: url, clock: "test_clock()"})
		b := join(t, Options{URL: url, clock: "test_clock()"})
		keepTime(t, a.DB)
		setClock(t, url, 700*time.Millisecond)
		c := callOf(t, "bot", "send", `{"a":1}`)
		a.approve(t, c)
		setClock(t, url, 0)
		if takenOver {
			execute(t, url, `UPDATE store_state SET lineage = lineage || '0'`)
		} else {
			if _, err := b.gate.Freeze(t.Context(), "", hana, approval.ViaAPI, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := b.gate.Unfreeze(t.Context(), "", hana, approval.ViaAPI); err != nil {
				t.Fatal(err)
			}
		}
		b.check(t, c, approval.AnswerPending)
	}
}

// A database that is another one each time is told to an operator, and nothing is done on it.
func TestADatabaseThatIsAnotherOneEachTime(t *testing.T) {
	m := join(t, Options{})
	m.lineage = `'another one: ' || random()`
	_, err := m.gate.Check(t.Context(), callOf(t, "bot", "send", `{"a":1}`))
	if approval.CodeOf(err) != approval.CodeStoreUnavailable || !strings.Contains(err.Error(), "one server alone") {
		t.Errorf("%v", err)
	}
}
