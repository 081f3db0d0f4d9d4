package campaign

// checkCards holds what people have in their chats against the requests that it is about.
func (c *checker) checkCards() {
	type address struct {
		channel, to, id string
		once            bool
	}
	pushed, has, repeats := map[address][]string{}, map[string]bool{}, map[string]bool{}
	for _, card := range c.Cards {
		has[card.ID] = true
		if card.Pushed {
			at := address{card.Channel, card.To, card.ID, card.Once}
			pushed[at] = append(pushed[at], card.What)
		}
		repeats[card.ID] = repeats[card.ID] || card.Repeats
	}
	for _, card := range c.Cards {
		r := c.requests[card.ID]
		// What was sent just before the program died, or the answer was lost, keeps what it has: nobody knows of it.
		if card.Buttons && r != nil && r.Status != "pending" && !c.Failed[r.ID] && (c.Calm || !card.Unknown) {
			c.report("buttons go", r.ID, "it is %s, and its card in %s (%s) still has buttons", r.Status, card.Channel, card.To)
		}
	}
	for a, cards := range pushed {
		// Where a platform does not know a message that is sent again, two of them say something in a calm history alone.
		if len(cards) > 1 && (c.Calm || a.once) && !repeats[a.id] {
			c.report("pushed once", a.id, "%s got %d cards of it over %s: %q", a.to, len(cards), a.channel, cards)
		}
	}
	for id, r := range c.requests {
		if r.Status == "pending" && !has[id] && !c.Failed[id] {
			c.report("somebody is asked", id, "it is pending, and nobody has a card of it")
		}
	}
}
