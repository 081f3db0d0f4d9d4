package campaign

// checkCards holds what people have in their chats against the requests that it is about.
func (c *checker) checkCards() {
	type address struct{ channel, to, id string }
	pushed, has := map[address]int{}, map[string]bool{}
	for _, card := range c.Cards {
		has[card.ID] = true
		if card.Pushed {
			pushed[address{card.Channel, card.To, card.ID}]++
		}
		r := c.requests[card.ID]
		if card.Buttons && r != nil && r.Status != "pending" && !c.Failed[r.ID] {
			c.report("buttons go", r.ID, "it is %s, and its card in %s (%s) still has buttons", r.Status, card.Channel, card.To)
		}
	}
	for a, n := range pushed {
		// Slack has nothing by which a message that was sent twice is known, so only a calm history says anything of it.
		if n > 1 && (c.Calm || a.channel == "line") {
			c.report("pushed once", a.id, "%s got %d cards of it over %s", a.to, n, a.channel)
		}
	}
	for id, r := range c.requests {
		if r.Status == "pending" && !has[id] && !c.Failed[id] {
			c.report("somebody is asked", id, "it is pending, and nobody has a card of it")
		}
	}
}
