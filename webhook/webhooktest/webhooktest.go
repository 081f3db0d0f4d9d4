// Package webhooktest has what the tests of ways in share: a chat that only takes note, and what no way in may do.
package webhooktest

import (
	"context"
	"io"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"countersign/internal/chat"
	"countersign/internal/testkit"
	"countersign/webhook"
)

// Request is the id of what the tests press buttons of.
const Request = "01KAFHZX3T9W8Y7B6A5D4C3E2F"

// Now is when it is in tests of ways in.
var Now = time.Date(2026, 11, 21, 10, 40, 0, 0, time.UTC)

// Chat takes note of what it is handed, and answers as it is told to.
type Chat struct {
	OnInteract func(ctx context.Context) // nil: nothing is done meanwhile
	OnAsk      func()

	mu           sync.Mutex
	Interactions []chat.Interaction
	Asks         []chat.Interaction
	Refusals     []string // "actor reason"
	Result       chat.InteractionResult
	Asked        chat.Asked
	Err          error
}

var _ webhook.Chat = (*Chat)(nil)

// Interact implements [webhook.Chat].
func (c *Chat) Interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, error) {
	if c.OnInteract != nil {
		c.OnInteract(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Interactions = append(c.Interactions, t)
	return c.Result, c.Err
}

// Ask implements [webhook.Chat].
func (c *Chat) Ask(_ context.Context, t chat.Interaction) (chat.Asked, error) {
	if c.OnAsk != nil {
		c.OnAsk()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Asks = append(c.Asks, t)
	return c.Asked, c.Err
}

// Refused implements [webhook.Chat].
func (c *Chat) RecordRefused(_ context.Context, actor, _, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Refusals = append(c.Refusals, actor+" "+reason)
	return c.Err
}

// Taken is a copy of Interactions, while more may come.
func (c *Chat) Taken() []chat.Interaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]chat.Interaction(nil), c.Interactions...)
}

// SetErr sets Err, while interactions may come.
func (c *Chat) SetErr(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Err = err
}

// World is what is around a way in.
type World struct {
	T      *testing.T
	Chat   *Chat
	Log    *testkit.Buffer
	Counts map[string]int // by what was counted
	Time   time.Time
	People webhook.People
}

// New returns a world at [Now].
func New(t *testing.T, people webhook.People) *World {
	return &World{T: t, Chat: new(Chat), Log: new(testkit.Buffer), Counts: map[string]int{}, Time: Now, People: people}
}

// Options are what a way in of this world is made of.
func (w *World) Options() webhook.Options {
	return webhook.Options{
		Chat: w.Chat, People: w.People, Logger: w.Log.Logger(),
		Now: func() time.Time { return w.Time }, Count: func(_, result string) { w.Counts[result]++ },
	}
}

// WantStatus checks how a delivery was answered.
func (w *World) WantStatus(r *httptest.ResponseRecorder, status int) {
	w.T.Helper()
	if r.Code != status {
		w.T.Errorf("answered %d %q, want %d", r.Code, r.Body, status)
	}
}

// WantAsks checks how many buttons came that a dialog may ask about.
func (w *World) WantAsks(n int) {
	w.T.Helper()
	if len(w.Chat.Asks) != n {
		w.T.Fatalf("%d buttons reached the gate, want %d", len(w.Chat.Asks), n)
	}
}

// WantInteractions checks how many other interactions came.
func (w *World) WantInteractions(n int) {
	w.T.Helper()
	if len(w.Chat.Interactions) != n {
		w.T.Fatalf("%d interactions reached the gate, want %d", len(w.Chat.Interactions), n)
	}
}

// WantNothing checks that nothing came.
func (w *World) WantNothing() {
	w.T.Helper()
	if all := slices.Concat(w.Chat.Interactions, w.Chat.Asks); len(all) > 0 {
		w.T.Fatalf("%+v reached the gate", all)
	}
}

// WantRefusals checks what of all that was signed is on record as refused.
func (w *World) WantRefusals(want ...string) {
	w.T.Helper()
	if !slices.Equal(w.Chat.Refusals, want) {
		w.T.Errorf("on record %q, want %q", w.Chat.Refusals, want)
	}
}

// Never is a body that must not be read.
type Never struct{ T *testing.T }

func (n Never) Read([]byte) (int, error) {
	n.T.Error("the body was read")
	return 0, io.ErrUnexpectedEOF
}

// Delivery is a body that a platform sends, with all that its documents say is in it.
type Delivery struct {
	Name, Body string
	// Post delivers a body, signed, to a way in of a world of its own.
	Post func(t *testing.T, body string) (*World, *httptest.ResponseRecorder)
}

// Decide returns the interactions that a body leads to, how it was answered, and what is on record.
func (d Delivery) Decide(t *testing.T, body string) (all []chat.Interaction, status int, refused []string) {
	w, r := d.Post(t, body)
	return slices.Concat(w.Chat.Interactions, w.Chat.Asks), r.Code, w.Chat.Refusals
}

// Spelled reports whether a body holds each of these names exactly so; one that is written with escapes counts.
func Spelled(body string, names ...string) bool {
	return strings.Contains(body, `\u`) ||
		!slices.ContainsFunc(names, func(n string) bool { return !strings.Contains(body, `"`+n+`"`) })
}

var aKey = regexp.MustCompile(`"([A-Za-z_]+)":`)

// CheckSpellings checks that no change of a key's case, and no key that comes twice, makes another decision of a body:
// it is refused, or the key is one that does not count.
func CheckSpellings(t *testing.T, all []Delivery) {
	others := []string{`"x"`, `null`, `{}`, `[]`, `1`, `true`, `"deny"`, `"U03KEN"`, `"T0OTHER"`}
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom(all).Draw(rt, "delivery")
		keys := aKey.FindAllStringSubmatchIndex(d.Body, -1)
		at := rapid.SampledFrom(keys).Draw(rt, "key")
		key, before, after := d.Body[at[2]:at[3]], d.Body[:at[0]], d.Body[at[1]:]
		other := rapid.SampledFrom(others).Draw(rt, "other value")
		respelled := respell(rt, key)
		value, err := jsontext.NewDecoder(strings.NewReader(after)).ReadValue()
		if err != nil {
			rt.Fatal(err)
		}
		member := func(key, value string) string { return `"` + key + `":` + value }
		given := member(key, string(value))
		body := before + rapid.SampledFrom([]string{
			member(respelled, string(value)),
			member(key, other) + "," + given, given + "," + member(key, other),
			member(respelled, other) + "," + given, given + "," + member(respelled, other),
			member(respelled, string(value)) + "," + member(key, other),
		}).Draw(rt, "members") + after[len(value):]
		want, _, _ := d.Decide(t, d.Body)
		got, status, refused := d.Decide(t, body)
		if len(got) > 0 && !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s\n%s\nleads to %+v\ninstead of %+v", d.Name, body, got, want)
		}
		if status != 200 && (status != 400 || len(refused) == 0) {
			rt.Fatalf("%s\n%s\nis answered %d, on record %q", d.Name, body, status, refused)
		}
	})
}

// respell changes the case of some letters, or escapes one.
func respell(rt *rapid.T, key string) string {
	b := []byte(key)
	i := rapid.IntRange(0, len(b)-1).Draw(rt, "letter")
	if rapid.Bool().Draw(rt, "one") && b[i] != '_' {
		b[i] ^= 0x20
		return string(b)
	}
	return rapid.SampledFrom([]string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:],
		strings.ReplaceAll(key, "_", ""), strings.ReplaceAll(key, "s", "\u017f"), strings.ReplaceAll(key, "k", "\u212a"),
	}).Draw(rt, "spelling")
}
