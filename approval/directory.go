package approval

// Directory is who is who, as configured now. The gate asks it inside the transaction of what somebody wants, so that
// who was removed meanwhile decides nothing, and nothing of theirs runs. It must not block.
type Directory interface {
	// Person returns a configured person.
	Person(name string) (Actor, bool)
	// HasAgent reports whether there is an agent of this name.
	HasAgent(name string) bool
	// People returns every configured person.
	People() []Actor
	// Notified returns the names of those whom the channels notify of a request whose rule names nobody.
	Notified() []string
	// Owner returns who owns an agent, "" for nobody.
	Owner(agent string) string
	// Asks says how an agent's calls come to people, as configured.
	Asks(agent string) Asks
	// AtKeyboard returns who sits at an agent's keyboard.
	AtKeyboard(agent string) (Actor, bool)
}

// Asks is how an agent's calls come to people.
type Asks struct {
	Group       Grouping // where a call's rule does not say; "": [Terms.Group]
	CardsAtOnce int      // how many cards of its stand before people at once; 0: any number
}

// PersonNow returns a person as they are configured now, the zero Actor for nobody.
func (g *Gate) PersonNow(name string) Actor {
	if g.dir == nil {
		return Actor{}
	}
	who, ok := g.dir.Person(name)
	if !ok {
		return Actor{}
	}
	return who
}

// ActorNow returns a person with the roles and groups they have now, none if they are not configured any more.
func (g *Gate) ActorNow(who Actor) Actor {
	if who.Kind != Human || g.dir == nil {
		return who
	}
	now, ok := g.dir.Person(who.Name)
	who.Approver, who.Admin, who.Groups = ok && now.Approver, ok && now.Admin, now.Groups
	return who
}
