package approval

import "context"

// Budgets bound what agents have people and the store do.
type Budgets interface {
	// Take uses up that many requests and pushes of an agent's, or returns an [Error] with [CodeRateLimited]
	// and uses up nothing.
	Take(agent string, requests, pushes int) error
	// Give takes a use back: the transaction that it was for did not commit.
	Give(agent string, requests, pushes int)
	// Turn waits until work on so many bytes of an agent's may begin, so that one agent's work does not keep the
	// others from theirs, and counts it until release is called.
	Turn(ctx context.Context, agent string, bytes int) (release func(), err error)
}

// turn waits until a call may be worked on.
func (g *Gate) turn(ctx context.Context, calls ...Call) (release func(), err error) {
	if g.budgets == nil {
		return func() {}, nil
	}
	n := 0
	for i := range calls {
		n += len(calls[i].Args.Canonical()) + len(calls[i].Preview)
	}
	return g.budgets.Turn(ctx, calls[0].Agent, n)
}

// bill is what one agent uses up in one transaction, which may run more than once, and may come to nothing.
// The zero bill is free.
type bill struct {
	budgets          Budgets
	agent            string
	requests, pushes int
}

func (b *bill) take(requests, pushes int) error {
	if b.budgets == nil || requests == 0 && pushes == 0 {
		return nil
	}
	if err := b.budgets.Take(b.agent, requests, pushes); err != nil {
		return err
	}
	b.requests, b.pushes = b.requests+requests, b.pushes+pushes
	return nil
}

// request uses up a request, and with the first one a push, so that who has none left is refused before
// anything is stored.
func (b *bill) request() error {
	if b.pushes == 0 {
		return b.take(1, 1)
	}
	return b.take(1, 0)
}

// pushed says how many pushes there were in all.
func (b *bill) pushed(n int) error {
	if n >= b.pushes {
		return b.take(0, n-b.pushes)
	}
	b.budgets.Give(b.agent, 0, b.pushes-n)
	b.pushes = n
	return nil
}

// void takes everything back: the transaction did not commit, or begins anew.
func (b *bill) void() {
	if b.requests > 0 || b.pushes > 0 {
		b.budgets.Give(b.agent, b.requests, b.pushes)
		b.requests, b.pushes = 0, 0
	}
}

// tab is what several agents use up in one transaction. The nil tab holds nothing.
type tab struct {
	budgets Budgets
	bills   []bill
}

func (t *tab) take(agent string, requests, pushes int) error {
	b := bill{budgets: t.budgets, agent: agent}
	if err := b.take(requests, pushes); err != nil {
		return err
	}
	t.bills = append(t.bills, b)
	return nil
}

// void takes everything back.
func (t *tab) void() {
	if t == nil {
		return
	}
	for i := range t.bills {
		t.bills[i].void()
	}
	t.bills = nil
}

// keep takes note that the transaction has committed.
func (t *tab) keep() {
	if t != nil {
		t.bills = nil
	}
}

// OverBudget puts on record that an agent or a person is over a budget, and tells the admins: each at the first
// of their addresses that is alive.
func (g *Gate) OverBudget(ctx context.Context, who Actor, budget, limit string) error {
	return g.store.Update(ctx, func(tx Tx) error {
		e := Event{Type: EventRateLimited, Actor: who.String(), Reason: budget, Data: marshal(map[string]any{"budget": budget, "limit": limit})}
		if who.Kind == Agent {
			e.Agent = who.Name
		}
		if err := g.audit(ctx, tx, e); err != nil {
			return err
		}
		tried := map[Address]bool{}
		for _, route := range g.admins() {
			a, ok, err := g.pick(tx, route, tried)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			tried[a] = true
			n := Notification{Channel: a.Channel, Recipient: a.To, Kind: KindReply,
				Text: g.say(g.at(a), SayOverBudget, "who", who.String(), "budget", budget, "limit", limit)}
			if err := g.queue(tx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// at is the person at an address, as far as they are known.
func (g *Gate) at(a Address) Actor {
	if name := g.nameOf(a); name != "" && g.people != nil {
		if who, ok := g.people(name); ok {
			return who
		}
	}
	return Actor{}
}
