package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"countersign/internal/emulator"
)

// phone is a person's LINE. It takes each card at once, and says when it came and which request it is about.
type phone struct {
	chat   *emulator.Emulator
	server *http.Server
	cards  chan card
	watch  stopwatch

	path     string // of LINE's addresses
	messages atomic.Int64
}

// card is one push.
type card struct {
	request string
	at      time.Duration // by the phone's watch
}

const (
	personName = "hana"
	personLINE = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
)

// button is the data of the one that approves, as it stands in JSON.
var button = regexp.MustCompile(`action=approve(?:&|\\u0026)id=([0-9A-HJKMNP-TV-Z]{26})`)

// newPhone starts the stand-in for LINE.
func newPhone() (*phone, error) {
	chat, err := emulator.New(emulator.Config{People: []emulator.Person{{Name: personName, LINE: personLINE}}})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, chat.Close())
	}
	chat.SetBaseURL("http://" + l.Addr().String())
	p := &phone{chat: chat, cards: make(chan card, 1024), watch: startStopwatch()}
	if line, err := url.Parse(chat.LINE.URL()); err == nil {
		p.path = line.Path
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *phone) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
	return p.chat.Close()
}

// ServeHTTP takes a message at once, and notes when a card came. What else is asked of LINE the emulator answers. It
// checks each message as LINE does, which is for tests: here that would take processor time from what is measured.
func (p *phone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint, at := emulator.Endpoint(strings.TrimPrefix(r.URL.Path, p.path)), p.watch.read()
	if endpoint != emulator.LINEPush && endpoint != emulator.LINEReply {
		p.chat.Handler().ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m := button.FindSubmatch(body); m != nil && endpoint == emulator.LINEPush {
		select {
		case p.cards <- card{string(m[1]), at}:
		default: // nobody waits for it
		}
	}
	id := p.messages.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Line-Request-Id", fmt.Sprintf("bench-%d", id))
	fmt.Fprintf(w, `{"sentMessages":[{"id":"%d","quoteToken":"bench-%d"}]}`, id, id)
}

// forget drops the cards that nobody has waited for.
func (p *phone) forget() {
	for len(p.cards) > 0 {
		<-p.cards
	}
}

// next is the next card.
func (p *phone) next(ctx context.Context) (card, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case c := <-p.cards:
		return c, nil
	case <-late.C:
		return card{}, errors.New("no card came to the person")
	case <-ctx.Done():
		return card{}, ctx.Err()
	}
}

// press approves a request, and returns when the gate has answered.
func (p *phone) press(ctx context.Context, request string) error {
	event, err := p.chat.LINE.PostbackEvent(personName, "action=approve&id="+request)
	if err != nil {
		return err
	}
	d, err := p.chat.LINE.Post(ctx, emulator.LINEPost{Events: []emulator.Object{event}})
	if err == nil && !d.OK() {
		err = fmt.Errorf("the press is answered with %d %.200q", d.Status, d.Body)
	}
	return err
}
