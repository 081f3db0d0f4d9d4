package campaign

// checkCards holds what people have in their chats against the requests that it is about.
func (c *checker) checkCards() {
	type address struct {
		channel, to, id string
		once            bool
	}
	pushed, has := map[address]int{}, map[string]bool{}
	for _, card := range c.Cards {
		has[card.ID] = true
		if card.Pushed {
			pushed[address{card.Channel, card.To, card.ID, card.Once}]++
		}
		r := c.requests[card.ID]
		if card.Buttons && r != nil && r.Status != "pending" && !c.Failed[r.ID] {
			c.report("buttons go", r.ID, "it is %s, and its card in %s (%s) still has buttons", r.Status, card.Channel, card.To)
		}
	}
	for a, n := range pushed {
		// Where a platform does not know a message that is sent again, two of them say something in a calm history alone.
		if n > 1 && (c.Calm || a.once) {
			c.report("pushed once", a.id, "%s got %d cards of it over %s", a.to, n, a.channel)
		}
	}
	for id, r := range c.requests {
		if r.Status == "pending" && !has[id] && !c.Failed[id] {
			c.report("somebody is asked", id, "it is pending, and nobody has a card of it")
		}
	}
}
