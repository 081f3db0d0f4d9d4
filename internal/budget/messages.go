package budget

import "context"

// Messages are the budgets of agents as the transport of MCP's messages asks for them.
type Messages struct{ *Registry }

// Room refuses a message of so many bytes before it is read.
func (m Messages) Room(agent string, bytes int64) error {
	return m.Agent(agent).Check(Bytes, int(bytes))
}

// Pause is the function of that name.
func (Messages) Pause(ctx context.Context) { Pause(ctx) }

// Charge charges an agent for a message of so many bytes.
func (m Messages) Charge(agent string, bytes int) (refuse func() error) {
	return m.Agent(agent).Charge(bytes)
}

// Stream counts a stream until release is called.
func (m Messages) Stream(ctx context.Context, agent string) (release func(), err error) {
	return m.Agent(agent).Hold(ctx, Streams)
}

// Sessions is how many sessions an agent may have open.
func (m Messages) Sessions(agent string) int { return m.Agent(agent).Most(Sessions) }

// NoSession takes note that an agent was refused one more, and returns why.
func (m Messages) NoSession(agent string) error { return m.Agent(agent).Refused(Sessions) }
