package config

import (
	"fmt"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/yamlpos"
)

// groups checks what people are in. A name in a policy is a person's or a group's, and never both.
func (c *checker) groups() {
	people, groups := map[string]string{}, map[string]owner{}
	for _, p := range c.cfg.File.People {
		people[strings.ToLower(p.Name)] = p.Name
	}
	for i, p := range c.cfg.File.People {
		for j, g := range p.Groups {
			path := fmt.Sprintf("$.people[%d].groups[%d]", i, j)
			if c.Bad[path] {
				continue
			}
			at, folded := c.place(path), strings.ToLower(g)
			first, known := groups[folded]
			switch name, both := people[folded]; {
			case !personName(g) || g == "":
				c.errorf(path, "a group's name must be 1 to 64 letters, digits and _ . @ + -")
			case both:
				c.errorf(path, "%s is a person; a name may not be a person's and a group's (letter case does not count)", name)
			case slices.Contains(p.Groups[:j], g):
				c.errorf(path, "%s is listed twice; remove one", g)
			case known && first.who != g:
				c.errorf(path, "the group at line %d is written %s; write both the same way", first.line, first.who)
			case !known:
				groups[folded] = owner{g, at.Line}
			}
		}
	}
}

// agentOwners checks whose agents are.
func (c *checker) agentOwners() {
	for i, a := range c.cfg.File.Agents {
		at := fmt.Sprintf("$.agents[%d].owner", i)
		if !c.Said[at] || c.cfg.hasPerson(a.Owner) {
			continue
		}
		if !yamlpos.MayRepeat(a.Owner) { // a token, perhaps
			c.errorf(at, "owner must be the name of a person")
			continue
		}
		var known []string
		for _, p := range c.cfg.File.People {
			known = append(known, p.Name)
		}
		c.errorf(at, "nobody in people is called %q%s", a.Owner, yamlpos.DidYouMean(a.Owner, known))
	}
}

func (c *Config) hasPerson(name string) bool {
	return slices.ContainsFunc(c.File.People, func(p Person) bool { return p.Name == name })
}

// owner returns whose agent it is.
func (c *Config) owner(agent string) string {
	for _, a := range c.File.Agents {
		if a.Name == agent {
			return a.Owner
		}
	}
	return ""
}

// deciders are the people as a policy's needs are checked against them, nil where not all could be made out.
func (c *checker) deciders() []approval.Actor {
	if c.Bad["$.people"] {
		return nil
	}
	actors := []approval.Actor{}
	for i, p := range c.cfg.File.People {
		if path := fmt.Sprintf("$.people[%d]", i); c.Bad[path] || c.spoiledBelow(path) {
			return nil
		}
		actors = append(actors, approval.Actor{Kind: approval.Human, Name: p.Name, Approver: p.has(roleApprover),
			Admin: p.has(roleAdmin), Groups: p.Groups})
	}
	return actors
}

// hasWay returns who has an address that cards can come to; nil where that does not matter, because all see every card
// in a room, or because there is no channel at all.
func (c *checker) hasWay() func(person string) bool {
	if len(c.cfg.Channels) == 0 || len(c.cfg.Rooms()) > 0 {
		return nil
	}
	return func(name string) bool {
		return slices.ContainsFunc(c.cfg.File.People, func(p Person) bool {
			return p.Name == name && len(c.cfg.allWays(p)) > 0
		})
	}
}
