package approval

import (
	"context"
	"sync"
	"time"
)

// maxLists is how many lists of one principal are in memory at a time; more of them wait for their turn.
const maxLists = 4

// turns has each principal hold a few lists at a time: what a list takes is bounded, and so is what all of one
// principal's take, however many it asks for at once.
type turns struct {
	mu sync.Mutex
	of map[principal]*turn
}

type principal struct {
	kind ActorKind
	name string
}

type turn struct {
	slots chan struct{}
	users int // who hold it or wait for it
}

// Turn waits until the principal may hold one more list in memory. The caller must call release once the list has
// been answered with.
func (g *Gate) Turn(ctx context.Context, who Actor) (release func(), err error) {
	id, t := principal{who.Kind, who.Name}, &g.turns
	t.mu.Lock()
	if t.of == nil {
		t.of = map[principal]*turn{}
	}
	own := t.of[id]
	if own == nil {
		own = &turn{slots: make(chan struct{}, maxLists)}
		t.of[id] = own
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, id)
		}
	}
	select {
	case own.slots <- struct{}{}: // also where ctx has ended: a list that may be held is not refused as one too many
	default:
		select {
		case own.slots <- struct{}{}:
		case <-ctx.Done():
			leave()
			return nil, &Error{Code: CodeRateLimited, After: time.Second, Err: ctx.Err(),
				Message: "Several lists of yours are still being answered, or read slowly. Read those to their end and try again."}
		}
	}
	return sync.OnceFunc(func() { <-own.slots; leave() }), nil
}
