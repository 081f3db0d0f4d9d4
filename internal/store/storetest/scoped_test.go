package storetest_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/schema/schematest"
)

// stored is what there is of two agents and two people.
type stored struct {
	theirs, ours       approval.Request
	card               approval.Card
	grant              approval.Grant
	use                approval.GrantUse
	notification       approval.Notification
	link               signin.LinkRow
	session            signin.SessionRow
	passkey            passkey.Row
	reply              approval.Notification
	digest, credential string
}

// A scope's transaction is checked whatever it reads or writes: each method of a transaction is tried with what is
// another agent's, or another person's, and is reported; or else it is free, because what it does holds in any scope.
func TestScopedReportsEveryKindOfRow(t *testing.T) {
	free := strings.Fields(`Now NewID Scope Glance Ahead Delegation Delegations PutPolicy PolicyText Epoch Epochs FirstSight
		Dead SetDead Append Prune PruneSignIns OldRequests OldNotifications RemoveArgs EraseTexts RemoveText
		RemoveNotification RemoveRequest RemoveEvents`)
	db, s := fill(t)
	var problems []string
	scoped := storetest.NewScoped(db, func(problem string) { problems = append(problems, problem) })
	cases := strayCases(s)
	for _, kind := range []reflect.Type{reflect.TypeFor[approval.Tx](), reflect.TypeFor[signin.Tx](),
		reflect.TypeFor[passkey.Tx]()} {
		for m := range kind.Methods() {
			do, ok := cases[m.Name]
			isFree := slices.Contains(free, m.Name)
			if ok == isFree {
				t.Errorf("%s is to be reported, or to be free: one of the two", m.Name)
			}
			if !ok {
				continue
			}
			problems = nil
			undone := errors.New("undone")
			err := scoped.Update(t.Context(), approval.OfAgent("ours"), func(tx approval.Tx) error {
				do(tx, scoped.SignIns(tx), scoped.Passkeys(tx))
				return undone
			})
			if !errors.Is(err, undone) {
				t.Errorf("%s: %v", m.Name, err)
			}
			if len(problems) == 0 || !strings.HasPrefix(problems[0], m.Name+": ") ||
				!strings.Contains(problems[0], "scoped_test.go") {
				t.Errorf("%s of another's is reported as %q", m.Name, problems)
			}
		}
	}
}

// What stands before a store takes nothing from what it promises.
func TestScopedKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return storetest.ScopedIn(t, db)
	})
}

// In the scope that holds it, nothing is reported, by whatever the scope is named.
func TestScopedLetsATransactionHaveWhatIsItsOwn(t *testing.T) {
	db, s := fill(t)
	scoped := storetest.ScopedIn(t, db)
	for _, about := range []approval.Scope{approval.WholeStore(), approval.OfAgent("theirs"), approval.OfAgent(""),
		approval.OfAgents("theirs", "theirs"), approval.OfAgents("theirs", "ours"), approval.OfID(s.theirs.ID),
		approval.OfID(s.card.ID), approval.OfID(s.grant.ID), approval.OfID(s.use.ID),
		approval.OfNotification(s.notification.ID)} {
		err := scoped.Update(t.Context(), about, func(tx approval.Tx) error {
			for _, read := range []func() error{
				func() error { _, err := tx.Request(s.theirs.ID); return err },
				func() error { _, err := tx.Card(s.card.ID); return err },
				func() error { _, err := tx.GrantUse(s.use.ID); return err },
				func() error { _, err := tx.Grant(s.grant.ID); return err },
				func() error { _, err := tx.Notification(s.notification.ID); return err },
				func() error { _, err := tx.Notification(s.reply.ID); return err },
				func() error { _, err := tx.Glance().Request(s.ours.ID); return err },
				func() error { _, err := tx.Extend(s.theirs.ID, tx.Now().Add(2*time.Hour)); return err },
			} {
				if err := read(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", about, err)
		}
	}
	err := scoped.Update(t.Context(), approval.OfPerson("ken"), func(tx approval.Tx) error {
		if _, err := scoped.SignIns(tx).DeleteSession(s.session.ID); err != nil {
			return err
		}
		_, err := scoped.Passkeys(tx).DeletePasskey("ken", s.passkey.ID)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What is glanced at is not written.
func TestScopedReportsAWriteThroughGlance(t *testing.T) {
	db, s := fill(t)
	var problems []string
	scoped := storetest.NewScoped(db, func(problem string) { problems = append(problems, problem) })
	err := scoped.Update(t.Context(), approval.OfAgent("theirs"), func(tx approval.Tx) error {
		return tx.Glance().AddSession(s.theirs.ID, "s")
	})
	if err != nil || len(problems) != 1 || !strings.HasPrefix(problems[0], "AddSession through Glance: ") {
		t.Errorf("got %q, %v", problems, err)
	}
}

// A function that finds that it is about more than its scope runs again about the whole store, and what it did before
// is undone.
func TestScopedRunsAgainAboutTheWholeStore(t *testing.T) {
	db, s := fill(t)
	scoped := storetest.ScopedIn(t, db)
	var scopes []string
	err := scoped.Update(t.Context(), approval.OfID(s.ours.ID), func(tx approval.Tx) error {
		scopes = append(scopes, tx.Scope().String())
		if sight, err := tx.FirstSight("e1"); err != nil || !sight {
			return errors.Join(err, errors.New("seen before"))
		}
		if err := approval.NeedWholeStore(tx); err != nil {
			return err
		}
		return tx.AddSession(s.theirs.ID, "s")
	})
	if want := "of the id " + s.ours.ID + ", of the whole store"; err != nil || strings.Join(scopes, ", ") != want {
		t.Errorf("ran %q, want %q; %v", scopes, want, err)
	}
}

func fill(t *testing.T) (*sqlite.DB, stored) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var s stored
	if err := db.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) (err error) {
		s, err = insert(tx, db.SignIns(tx), db.Passkeys(tx))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return db, s
}

func newRequest(tx approval.Tx, agent, batch string) approval.Request {
	return approval.Request{ID: tx.NewID(), Agent: agent, Tool: "pay", Args: []byte(`{}`),
		ArgsHash: strings.Repeat("0", 64), Risk: approval.RiskMedium, Rule: "paying", ReasonCode: "approval_required",
		HumanMessage: "Please look.", BatchID: batch, Status: approval.Pending, RequestedAt: tx.Now(),
		ExpiresAt: tx.Now().Add(time.Hour)}
}

func insert(tx approval.Tx, links signin.Tx, keys passkey.Tx) (s stored, err error) {
	now := tx.Now()
	s.card = approval.Card{ID: tx.NewID(), Agent: "theirs", Grouping: approval.GroupTurn, Risk: approval.RiskMedium,
		OpenedAt: now, LeavesAt: now, JoinBy: now}
	s.theirs, s.ours = newRequest(tx, "theirs", s.card.ID), newRequest(tx, "ours", "")
	s.card.Items = []approval.CardItem{{ID: s.theirs.ID, Version: 1}}
	s.grant = approval.Grant{ID: tx.NewID(), RequestID: s.theirs.ID, Agent: "theirs", Tool: "pay",
		Risk: approval.RiskLow, By: "hana", Via: approval.ViaCLI, MadeAt: now, ExpiresAt: now.Add(time.Hour),
		Args: []byte(`{}`), ArgsHash: strings.Repeat("0", 64), Uses: 3}
	s.use = approval.GrantUse{ID: tx.NewID(), GrantID: s.grant.ID, At: now, ArgsHash: strings.Repeat("0", 64)}
	s.notification = approval.Notification{ID: tx.NewID(), ApprovalID: s.theirs.ID, Channel: "line", Recipient: "U1",
		Kind: approval.KindRequest, Status: approval.Queued, NextAttemptAt: now, CreatedAt: now, UpdatedAt: now,
		RetryKey: tx.NewID()}
	s.reply = s.notification
	s.reply.ID, s.reply.ApprovalID, s.reply.Kind, s.reply.RetryKey = tx.NewID(), "", approval.KindReply, tx.NewID()
	s.digest, s.credential = strings.Repeat("a", 64), "credential"
	s.link = signin.LinkRow{Link: signin.Link{ID: tx.NewID(), Person: "ken", Via: approval.ViaAPI, From: "line",
		MadeAt: now, ExpiresAt: now.Add(time.Hour)}, Digest: s.digest}
	s.session = signin.SessionRow{Session: signin.Session{ID: tx.NewID(), Person: "ken", Method: signin.MethodLink,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(time.Hour)}, Digest: s.digest}
	s.passkey = passkey.Row{Passkey: passkey.Passkey{ID: tx.NewID(), Person: "ken", Name: "key", AddedAt: now},
		Credential: s.credential, PublicKey: "key", RPID: "example.com"}
	for _, put := range []func() error{
		func() error { return tx.InsertRequest(s.theirs) },
		func() error { return tx.InsertRequest(s.ours) },
		func() error { return tx.PutCard(s.card) },
		func() error { return tx.PutGrant(s.grant) },
		func() error { return tx.PutGrantUse(s.use) },
		func() error { return tx.InsertNotification(s.notification) },
		func() error { return tx.InsertNotification(s.reply) },
		func() error { return links.InsertSignInLink(s.link) },
		func() error { return links.InsertSession(s.session) },
		func() error {
			return keys.InsertPasskeyOwner(passkey.Owner{Person: "ken", Handle: strings.Repeat("h", 86)})
		},
		func() error { return keys.InsertPasskey(s.passkey) },
	} {
		if err := put(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// strayCases are, by their methods, reads and writes of what is not the agent ours's. What comes of them is nothing.
func strayCases(s stored) map[string]func(tx approval.Tx, links signin.Tx, keys passkey.Tx) {
	type do = func(tx approval.Tx, links signin.Tx, keys passkey.Tx)
	of := func(f func(tx approval.Tx)) do { return func(tx approval.Tx, _ signin.Tx, _ passkey.Tx) { f(tx) } }
	link := func(f func(tx signin.Tx)) do { return func(_ approval.Tx, tx signin.Tx, _ passkey.Tx) { f(tx) } }
	key := func(f func(tx passkey.Tx)) do { return func(_ approval.Tx, _ signin.Tx, tx passkey.Tx) { f(tx) } }
	id, now, k, other := s.theirs.ID, time.Now(), s.theirs.Key(), approval.Address{Channel: "line", To: "U1"}
	return map[string]do{
		"InsertRequest": of(func(tx approval.Tx) { _ = tx.InsertRequest(newRequest(tx, "theirs", "")) }),
		"Request":       of(func(tx approval.Tx) { _, _ = tx.Request(id) }),
		"Head":          of(func(tx approval.Tx) { _, _ = tx.Head(id) }),
		"NeedOf":        of(func(tx approval.Tx) { _, _ = tx.NeedOf(id) }),
		"Dispatched":    of(func(tx approval.Tx) { _, _, _ = tx.Dispatched(id) }),
		"Requests":      of(func(tx approval.Tx) { _, _ = tx.Requests(approval.RequestQuery{Agent: "theirs"}) }),
		"Heads":         of(func(tx approval.Tx) { _, _ = tx.Heads(approval.RequestQuery{}) }),
		"RequestReach":  of(func(tx approval.Tx) { _, _ = tx.RequestReach(approval.RequestQuery{}, 1) }),
		"Batch":         of(func(tx approval.Tx) { _, _ = tx.Batch(s.card.ID) }),
		"BatchHeads":    of(func(tx approval.Tx) { _, _ = tx.BatchHeads(s.card.ID) }),
		"EndingIn":      of(func(tx approval.Tx) { _, _ = tx.EndingIn("A", "", 1) }),
		"UnderWay":      of(func(tx approval.Tx) { _, _ = tx.UnderWay("", 1) }),
		"AddSession":    of(func(tx approval.Tx) { _ = tx.AddSession(id, "s") }),
		"Resolve":       of(func(tx approval.Tx) { _, _ = tx.Resolve(approval.Resolution{ID: id}) }),
		"AddReason":     of(func(tx approval.Tx) { _, _ = tx.AddReason(id, "hana", "no") }),
		"SetNeed":       of(func(tx approval.Tx) { _, _ = tx.SetNeed(s.theirs) }),
		"Extend":        of(func(tx approval.Tx) { _, _ = tx.Extend(id, now.Add(2*time.Hour)) }),
		"Consume":       of(func(tx approval.Tx) { _, _ = tx.Consume(id, false, "") }),
		"Return":        of(func(tx approval.Tx) { _, _ = tx.Return(s.theirs) }),
		"Lapse":         of(func(tx approval.Tx) { _, _ = tx.Lapse(id) }),
		"Report":        of(func(tx approval.Tx) { _, _ = tx.Report(id, approval.RunFailed) }),
		"SetInputs":     of(func(tx approval.Tx) { _ = tx.SetInputs(id, nil) }),
		"Live":          of(func(tx approval.Tx) { _, _ = tx.Live(k) }),
		"CountPending":  of(func(tx approval.Tx) { _, _ = tx.CountPending("") }),
		"Due":           of(func(tx approval.Tx) { _, _ = tx.Due(1) }),
		"NextDeadline":  of(func(tx approval.Tx) { _, _ = tx.NextDeadline() }),
		"Tasks":         of(func(tx approval.Tx) { _, _ = tx.Tasks("theirs") }),
		"LiveAgents":    of(func(tx approval.Tx) { _, _ = tx.LiveAgents() }),
		"LiveOf":        of(func(tx approval.Tx) { _, _ = tx.LiveOf("theirs", 1) }),
		"LiveBefore":    of(func(tx approval.Tx) { _, _ = tx.LiveBefore("", id, 1) }),
		"Feed":          of(func(tx approval.Tx) { _, _ = tx.Feed("theirs", "", 1, 1) }),
		"Ack":           of(func(tx approval.Tx) { _, _ = tx.Ack("theirs", id) }),
		"PutVote":       of(func(tx approval.Tx) { _ = tx.PutVote(id, approval.Vote{Person: "hana", At: now}) }),
		"MoveVote":      of(func(tx approval.Tx) { _ = tx.MoveVote(id, "hana", 1) }),
		"Votes":         of(func(tx approval.Tx) { _, _ = tx.Votes(id) }),
		"PutDelegation": of(func(tx approval.Tx) { _ = tx.PutDelegation(approval.Delegation{Delegator: "ken"}) }),
		"PutCard":       of(func(tx approval.Tx) { _ = tx.PutCard(s.card) }),
		"Card":          of(func(tx approval.Tx) { _, _ = tx.Card(s.card.ID) }),
		"NewestCard":    of(func(tx approval.Tx) { _, _ = tx.NewestCard(s.card) }),
		"PendingCards":  of(func(tx approval.Tx) { _, _ = tx.PendingCards("theirs", 1) }),
		"PutGrant":      of(func(tx approval.Tx) { _ = tx.PutGrant(s.grant) }),
		"Grant":         of(func(tx approval.Tx) { _, _ = tx.Grant(s.grant.ID) }),
		"GrantsFor":     of(func(tx approval.Tx) { _, _ = tx.GrantsFor("theirs", "", "", "pay") }),
		"Grants":        of(func(tx approval.Tx) { _, _ = tx.Grants(approval.GrantQuery{RequestID: id}) }),
		"DueGrants":     of(func(tx approval.Tx) { _, _ = tx.DueGrants(1) }),
		"PutGrantUse":   of(func(tx approval.Tx) { _ = tx.PutGrantUse(s.use) }),
		"GrantUse":      of(func(tx approval.Tx) { _, _ = tx.GrantUse(s.use.ID) }),

		"RunningGrantUses": of(func(tx approval.Tx) { _, _ = tx.RunningGrantUses("", 1) }),
		"PolicyDigests":    of(func(tx approval.Tx) { _, _ = tx.PolicyDigests("a", 1) }),
		"PutEpoch":         of(func(tx approval.Tx) { _ = tx.PutEpoch(approval.Epoch{Agent: "ours", ID: tx.NewID()}) }),
		"Pin":              of(func(tx approval.Tx) { _, _ = tx.Pin("theirs", "", "pay") }),
		"PutPin":           of(func(tx approval.Tx) { _ = tx.PutPin(approval.ToolPin{Tool: "pay", SeenAt: now}) }),
		"Recent":           of(func(tx approval.Tx) { _, _ = tx.Recent(k) }),
		"PutRecent":        of(func(tx approval.Tx) { _ = tx.PutRecent(k, approval.Recent{}) }),
		"LastSaid":         of(func(tx approval.Tx) { _, _ = tx.LastSaid("theirs", "", "pay") }),
		"PutSaid":          of(func(tx approval.Tx) { _ = tx.PutSaid("theirs", "", "pay", approval.Said{}) }),
		"InsertNotification": of(func(tx approval.Tx) {
			n := s.notification
			n.ID, n.RetryKey = tx.NewID(), tx.NewID()
			_ = tx.InsertNotification(n)
		}),
		"Notification": of(func(tx approval.Tx) { _, _ = tx.Notification(s.notification.ID) }),
		"Waiting":      of(func(tx approval.Tx) { _, _ = tx.Waiting(s.notification.ID) }),
		"Notifications": of(func(tx approval.Tx) {
			_, _ = tx.Notifications(approval.NotificationQuery{ApprovalID: id})
		}),
		"NotificationReach":  of(func(tx approval.Tx) { _, _ = tx.NotificationReach(approval.NotificationQuery{}, 1) }),
		"Pushes":             of(func(tx approval.Tx) { _, _ = tx.Pushes(now, "", 1) }),
		"Sendable":           of(func(tx approval.Tx) { _, _ = tx.Sendable(1) }),
		"NextSendable":       of(func(tx approval.Tx) { _, _ = tx.NextSendable() }),
		"DueSoon":            of(func(tx approval.Tx) { _, _ = tx.DueSoon(other, now) }),
		"HeldFor":            of(func(tx approval.Tx) { _, _ = tx.HeldFor("theirs", 1) }),
		"PutReminded":        of(func(tx approval.Tx) { _ = tx.PutReminded(id, s.notification.ID) }),
		"UpdateNotification": of(func(tx approval.Tx) { _, _ = tx.UpdateNotification(s.notification, approval.Queued, 0) }),
		"Events":             of(func(tx approval.Tx) { _, _ = tx.Events(approval.EventQuery{Agent: "theirs"}) }),
		"EventReach":         of(func(tx approval.Tx) { _, _ = tx.EventReach(approval.EventQuery{}, 1) }),
		"SeqRange":           of(func(tx approval.Tx) { _, _, _ = tx.SeqRange() }),

		"InsertSignInLink":  link(func(tx signin.Tx) { _ = tx.InsertSignInLink(s.link) }),
		"SignInLink":        link(func(tx signin.Tx) { _, _ = tx.SignInLink(s.digest) }),
		"SignInLinksOf":     link(func(tx signin.Tx) { _, _ = tx.SignInLinksOf("ken") }),
		"EndSignInLink":     link(func(tx signin.Tx) { _, _ = tx.EndSignInLink(s.digest, signin.LinkUsed) }),
		"InsertSession":     link(func(tx signin.Tx) { _ = tx.InsertSession(s.session) }),
		"SessionBySecret":   link(func(tx signin.Tx) { _, _ = tx.SessionBySecret(s.digest) }),
		"SessionsOf":        link(func(tx signin.Tx) { _, _ = tx.SessionsOf("ken") }),
		"SeeSession":        link(func(tx signin.Tx) { _, _ = tx.SeeSession(s.session.ID) }),
		"DeleteSession":     link(func(tx signin.Tx) { _, _ = tx.DeleteSession(s.session.ID) }),
		"SignInPeople":      link(func(tx signin.Tx) { _, _ = tx.SignInPeople() }),
		"DeleteSignInLinks": link(func(tx signin.Tx) { _ = tx.DeleteSignInLinks("ken") }),

		"PasskeyOwner":        key(func(tx passkey.Tx) { _, _ = tx.PasskeyOwner("ken") }),
		"InsertPasskeyOwner":  key(func(tx passkey.Tx) { _ = tx.InsertPasskeyOwner(passkey.Owner{Person: "ken"}) }),
		"InsertPasskey":       key(func(tx passkey.Tx) { _ = tx.InsertPasskey(s.passkey) }),
		"PasskeyByCredential": key(func(tx passkey.Tx) { _, _ = tx.PasskeyByCredential(s.credential) }),
		"PasskeysOf":          key(func(tx passkey.Tx) { _, _ = tx.PasskeysOf("ken") }),
		"UpdatePasskey":       key(func(tx passkey.Tx) { _, _ = tx.UpdatePasskey(s.passkey) }),
		"DeletePasskey":       key(func(tx passkey.Tx) { _, _ = tx.DeletePasskey("ken", s.passkey.ID) }),
		"PasskeyPeople":       key(func(tx passkey.Tx) { _, _ = tx.PasskeyPeople() }),
		"DeletePasskeyOwner":  key(func(tx passkey.Tx) { _ = tx.DeletePasskeyOwner("ken") }),
	}
}
