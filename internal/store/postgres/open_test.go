//go:build postgres

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
	"countersign/internal/testkit"
)

// What keeps a store from being opened is told in a way that an operator can act on, and never with the password.
func TestOpenSaysWhatToDo(t *testing.T) {
	foreign := server.Database(t, "")
	execute(t, foreign, "CREATE TABLE theirs (id int)")
	latin := server.Database(t, "")
	execute(t, latin, "DROP DATABASE IF EXISTS latin")
	execute(t, latin, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	named := func(name string) string {
		u, err := url.Parse(foreign)
		if err != nil {
			t.Fatal(err)
		}
		u.Path, u.User = name, url.UserPassword("tester", "s3cret-password")
		return u.String()
	}
	for name, test := range map[string]struct{ url, want string }{
		"no URL":              {"postgres://tester:s3cret-password@[::1/x", "The store's URL cannot be read"},
		"another program's":   {foreign, "another program's"},
		"no such database":    {named("nowhere"), "does not exist; create it"},
		"nobody answers":      {"postgres://tester:s3cret-password@127.0.0.1:1/x?sslmode=disable", "cannot be reached"},
		"of another encoding": {named("latin"), "LATIN1"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(t.Context(), Options{URL: test.url})
			if err == nil {
				t.Fatal("it was opened", d.Close())
			}
			if approval.CodeOf(err) != approval.CodeStoreUnavailable || !strings.Contains(err.Error(), test.want) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// Of several servers the one is looked for that can be written; of one that cannot, it is said what to do.
func TestSeveralServersAreToldFromOne(t *testing.T) {
	for at, want := range map[string]bool{
		"postgres://u@one/db":                               false, // with TLS, and where the server has none, without
		"postgres://u@one/db?sslmode=require":               false,
		"postgres://u@one,two/db":                           true,
		"postgres://u@one:5432,one:5433/db?sslmode=disable": true,
	} {
		config, err := pgx.ParseConfig(at)
		if err != nil {
			t.Fatal(err)
		}
		if got := namesSeveral(config); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
}

// Several programs that start at once make the tables once.
func TestTablesAreMadeOnce(t *testing.T) {
	at := server.Database(t, "")
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			d, err := Open(context.Background(), Options{URL: at})
			if err == nil {
				err = d.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "the starts", starts.Wait)
}

// Rule 2.12: what one agent does at once takes one connection, whichever calls it is about.
func TestRule12_CallsOfOneAgentTakeOneConnection(t *testing.T) {
	d := open(t, Options{Connections: 4})
	held, letGo := testkit.Latch()
	defer letGo()
	done := make(chan error, 8)
	call := func(n int, fn func(approval.Tx) error) {
		k := approval.Key{Agent: "noisy", Server: "bank", Tool: fmt.Sprint("tool", n), ArgsHash: strings.Repeat("a", 64)}
		done <- d.Update(context.Background(), approval.OfCall(k), fn)
	}
	begun := make(chan struct{})
	go call(0, func(approval.Tx) error {
		close(begun)
		<-held
		return nil
	})
	testkit.Receive(t, "the first call", begun)
	for n := range cap(done) - 1 {
		go call(n+1, func(approval.Tx) error { return nil })
	}
	testkit.Eventually(t, "the others wait for their turn", func() bool {
		d.turns.mu.Lock()
		defer d.turns.mu.Unlock()
		turn := d.turns.held[approval.OfAgent("noisy")]
		return turn != nil && turn.users == cap(done)
	})
	if err := d.Update(t.Context(), approval.OfAgent("quiet"), func(approval.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	letGo()
	for range cap(done) {
		if err := testkit.Receive(t, "an update", done); err != nil {
			t.Error(err)
		}
	}
}

// Rule 2.12: what one agent does at once leaves the connections to others.
func TestRule12_OneAgentLeavesTheConnectionsToOthers(t *testing.T) {
	at := database(t)
	var ids []string
	before := open(t, Options{URL: at})
	for i := range 25 {
		if err := before.Update(t.Context(), approval.OfAgent("noisy"), func(tx approval.Tx) error {
			id, now := tx.NewID(), tx.Now()
			ids = append(ids, id)
			return tx.InsertRequest(approval.Request{ID: id, Agent: "noisy", Tool: fmt.Sprint("tool", i), Args: []byte(`{}`),
				ArgsHash: strings.Repeat("0", 64), Risk: approval.RiskHigh, Status: approval.Pending, RequestedAt: now,
				ExpiresAt: now})
		}); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, Options{URL: at, Connections: 4})
	held, letGo := testkit.Latch()
	defer letGo()
	began := make(chan struct{})
	var one sync.WaitGroup
	one.Go(func() {
		if err := d.Update(t.Context(), approval.OfAgent("noisy"), func(approval.Tx) error {
			close(began)
			<-held
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	testkit.Receive(t, "the first", began)
	for i := range 50 {
		about := approval.OfAgent("noisy")
		if i%2 == 1 { // by what it has asked
			about = approval.OfID(ids[i/2])
		}
		one.Go(func() {
			if err := d.Update(t.Context(), about, func(approval.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all wait for one turn, and not for a connection each", func() bool {
		d.turns.mu.Lock()
		defer d.turns.mu.Unlock()
		noisy := d.turns.held[approval.OfAgent("noisy")]
		return noisy != nil && noisy.users == 1+50
	})
	for range 10 {
		if err := d.Update(t.Context(), approval.OfAgent("quiet"), func(approval.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	letGo()
	testkit.Wait(t, "the noisy one's", one.Wait)
}

// A store that is closed says so, and waits for what has begun.
func TestCloseWaitsForWhatHasBegun(t *testing.T) {
	d := open(t, Options{})
	began, goOn := make(chan struct{}), make(chan struct{})
	updated := make(chan error, 1)
	go func() {
		updated <- d.Update(context.Background(), approval.OfNothing(), func(tx approval.Tx) error {
			close(began)
			<-goOn
			return tx.PutPolicy("d", "text")
		})
	}()
	testkit.Receive(t, "the function", began)
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	testkit.Eventually(t, "it refuses what comes", func() bool {
		err := d.View(t.Context(), func(approval.Tx) error { return nil })
		return errors.Is(err, approval.ErrClosed) && approval.CodeOf(err) == approval.CodeStoreUnavailable
	})
	close(goOn)
	if err := errors.Join(testkit.Receive(t, "the update", updated), testkit.Receive(t, "the end", closed)); err != nil {
		t.Error(err)
	}
}
