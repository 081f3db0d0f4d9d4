package approval

// Budgets bound what agents have people and the store do.
type Budgets interface {
	// Take uses up that many requests and pushes of an agent's, or returns an [Error] with [CodeRateLimited]
	// and uses up nothing.
	Take(agent string, requests, pushes int) error
	// Give takes a use back: the transaction that it was for did not commit.
	Give(agent string, requests, pushes int)
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

// void takes everything back: the transaction did not commit, or begins anew.
func (b *bill) void() {
	if b.requests > 0 || b.pushes > 0 {
		b.budgets.Give(b.agent, b.requests, b.pushes)
		b.requests, b.pushes = 0, 0
	}
}
