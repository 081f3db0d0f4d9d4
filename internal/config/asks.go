package config

import (
	"slices"

	"countersign/approval"
	"countersign/internal/policy"
)

const maxCardsAtOnce = 1000

// AgentAsks is how an agent's calls come to people, also those of an agent that has no section of its own.
func (c *Config) AgentAsks(agent string) approval.Asks {
	for _, a := range c.File.Agents {
		if a.Name == agent {
			return approval.Asks{Group: a.Group, CardsAtOnce: a.CardsAtOnce}
		}
	}
	return approval.Asks{}
}

func (c *checker) agentAsks(path string, a Agent) {
	if a.Group != "" && !slices.Contains(policy.Groupings(), a.Group) || a.Group == "" && c.Said[path+".group"] {
		c.errorf(path+".group", "group must be turn, call or run")
	}
	if a.CardsAtOnce < 0 || a.CardsAtOnce > maxCardsAtOnce {
		c.errorf(path+".cards_at_once", "cards_at_once must be from 0 to %d; 0 is no limit", maxCardsAtOnce)
	}
}
