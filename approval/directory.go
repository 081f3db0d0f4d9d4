package approval

// Directory is who is who, as configured now. The gate asks it inside the transaction of what somebody wants, so that
// who was removed meanwhile decides nothing, and nothing of theirs runs. It must not block.
type Directory interface {
	// Person returns a configured person.
	Person(name string) (Actor, bool)
	// HasAgent reports whether there is an agent of this name.
	HasAgent(name string) bool
	// AtKeyboard returns who sits at an agent's keyboard.
	AtKeyboard(agent string) (Actor, bool)
}

// PersonNow returns a person as they are configured now, the zero Actor for nobody.
func (g *Gate) PersonNow(name string) Actor {
	if g.dir == nil {
		return Actor{}
	}
	who, _ := g.dir.Person(name)
	return who
}
