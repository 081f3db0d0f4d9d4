package config

import (
	"encoding/json"
	"errors"
	"fmt"

	"countersign/internal/budget"
)

// Limits are the budgets that a file gives to every agent and every person; nil is the default of each.
type Limits struct {
	Agent  *AgentLimits  `yaml:"agent,omitempty" json:"agent,omitempty"`
	Person *PersonLimits `yaml:"person,omitempty" json:"person,omitempty"`
	// Connections is how many the listener of the API holds at most.
	Connections *Connections `yaml:"connections,omitempty" json:"connections,omitempty"`
}

// Connections is how many connections there may be at a time.
type Connections int

// defaultConnections is how many connections the API's listener holds where nothing is said.
const defaultConnections = 16384

var errConnections = errors.New("must be a whole number from 64 to 1000000")

func (n *Connections) SetText(s string) error {
	var v int
	if _, err := fmt.Sscanf(s+"\n", "%d\n", &v); err != nil || v < 64 || v > 1e6 {
		return errConnections
	}
	*n = Connections(v)
	return nil
}

// Connections is how many connections the API's listener holds at most.
func (c *Config) Connections() int {
	if n := c.Limits.Connections; n != nil {
		return int(*n)
	}
	return defaultConnections
}

// AgentLimits are the budgets of an agent. What is nil was not said; 0 is no limit.
type AgentLimits struct {
	Calls    *Rate     `yaml:"calls,omitempty" json:"calls,omitempty"`
	Bytes    *ByteRate `yaml:"bytes,omitempty" json:"bytes,omitempty"`
	Requests *Rate     `yaml:"requests,omitempty" json:"requests,omitempty"`
	Pushes   *Rate     `yaml:"pushes,omitempty" json:"pushes,omitempty"`
	Streams  *Held     `yaml:"streams,omitempty" json:"streams,omitempty"`
	Waits    *Held     `yaml:"waits,omitempty" json:"waits,omitempty"`
	Sessions *Held     `yaml:"sessions,omitempty" json:"sessions,omitempty"`
}

// PersonLimits are the budgets of a person.
type PersonLimits struct {
	Calls   *Rate     `yaml:"calls,omitempty" json:"calls,omitempty"`
	Bytes   *ByteRate `yaml:"bytes,omitempty" json:"bytes,omitempty"`
	Streams *Held     `yaml:"streams,omitempty" json:"streams,omitempty"`
	Waits   *Held     `yaml:"waits,omitempty" json:"waits,omitempty"`
}

// Rate is how much of something there may be per second, minute or hour.
type Rate struct{ budget.Rate }

// ByteRate is a [Rate] of bytes, which has units of its own.
type ByteRate struct{ budget.Rate }

// Held is how much of something there may be at a time.
type Held int

const noLimits = "none"

var (
	errLimits = errors.New("must be a mapping of budgets, or none")
	errRate   = errors.New("must be a number per second, minute or hour, such as 100/s, 30000/m or 120/h; 0 is no limit")
	errBytes  = errors.New("must be a number of bytes per second, minute or hour, such as 64KiB/s, 256MiB/m or 1GiB/h; " +
		"0 is no limit")
	errHeld = errors.New("must be a whole number; 0 is no limit")
)

func (r *Rate) SetText(s string) (err error) {
	if r.Rate, err = budget.ParseRate(s); err != nil {
		return errRate
	}
	return nil
}

func (r *ByteRate) SetText(s string) (err error) {
	if r.Rate, err = budget.ParseByteRate(s); err != nil {
		return errBytes
	}
	return nil
}

func (h *Held) SetText(s string) error {
	*h = 0
	if s == noLimits {
		return nil
	}
	var n int
	if _, err := fmt.Sscanf(s+"\n", "%d\n", &n); err != nil || n < 0 || n > 1<<30 {
		return errHeld
	}
	*h = Held(n)
	return nil
}

// String is the rate as it is written.
func (r ByteRate) String() string { return r.Bytes() }

// MarshalJSON writes the rate as a file has it.
func (r Rate) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// MarshalYAML writes the rate as a file has it.
func (r Rate) MarshalYAML() (any, error) { return r.String(), nil }

// MarshalJSON writes the rate as a file has it.
func (r ByteRate) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// MarshalYAML writes the rate as a file has it.
func (r ByteRate) MarshalYAML() (any, error) { return r.String(), nil }

func (l *Limits) SetText(s string) error {
	if s != noLimits {
		return errLimits
	}
	l.Agent, l.Person = new(AgentLimits), new(PersonLimits)
	return errors.Join(l.Agent.SetText(s), l.Person.SetText(s))
}

func (l *AgentLimits) SetText(s string) error {
	if s != noLimits {
		return errLimits
	}
	*l = AgentLimits{new(Rate), new(ByteRate), new(Rate), new(Rate), new(Held), new(Held), new(Held)}
	return nil
}

func (l *PersonLimits) SetText(s string) error {
	if s != noLimits {
		return errLimits
	}
	*l = PersonLimits{new(Rate), new(ByteRate), new(Held), new(Held)}
	return nil
}

// over returns b with what l says in place of b's.
func (l *AgentLimits) over(b budget.Limits) budget.Limits {
	if l == nil {
		return b
	}
	setRate(&b.Calls, l.Calls)
	setBytes(&b.Bytes, l.Bytes)
	setRate(&b.Requests, l.Requests)
	setRate(&b.Pushes, l.Pushes)
	setHeld(&b.Streams, l.Streams)
	setHeld(&b.Waits, l.Waits)
	setHeld(&b.Sessions, l.Sessions)
	return b
}

func (l *PersonLimits) over(b budget.Limits) budget.Limits {
	if l == nil {
		return b
	}
	setRate(&b.Calls, l.Calls)
	setBytes(&b.Bytes, l.Bytes)
	setHeld(&b.Streams, l.Streams)
	setHeld(&b.Waits, l.Waits)
	return b
}

func setRate(to *budget.Rate, r *Rate) {
	if r != nil {
		*to = r.Rate
	}
}

func setBytes(to *budget.Rate, r *ByteRate) {
	if r != nil {
		*to = r.Rate
	}
}

func setHeld(to *int, h *Held) {
	if h != nil {
		*to = int(*h)
	}
}

// Budgets returns the budgets of all who can come in: the configured agents and people, and the agents
// named here that the configuration does not name.
func (c *Config) Budgets(others ...string) map[budget.Principal]budget.Limits {
	agents := c.Limits.Agent.over(budget.DefaultAgent)
	all := map[budget.Principal]budget.Limits{}
	for _, name := range others {
		all[budget.Principal{Agent: true, Name: name}] = agents
	}
	for _, a := range c.File.Agents {
		all[budget.Principal{Agent: true, Name: a.Name}] = a.Limits.over(agents)
	}
	for _, p := range c.File.People {
		all[budget.Principal{Name: p.Name}] = c.Limits.Person.over(budget.DefaultPerson)
	}
	return all
}
