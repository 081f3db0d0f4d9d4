// Package hooks speaks the language of coding agents' hooks: an agent's event comes in as JSON, the gate
// is asked, and the answer goes back as the agent reads it.
//
//	event, err := hooks.Parse(hooks.ClaudeCode, stdin)
//	reply, err := hooks.Hook{Agent: hooks.ClaudeCode, Asker: asker}.Answer(ctx, event)
//
// Two kinds of event are known. Before a tool runs the gate is asked about the call: what policy allows
// gets no opinion, so that the agent's own rules still ask; what a person approved runs with exactly the
// bytes that were approved; everything else is denied with a reason that tells the model what to do next.
// When a session or a turn begins, the endings of earlier requests are told as additional context, and
// acknowledged once they were written.
//
// Agents run a call when their hook fails in a way that they do not take for an answer. So an answer is
// built whole before anything of it is written, and whatever goes wrong is an error that the caller turns
// into a refusal in the agent's terms: exit code 2 with a reason for a command, an explicit denial from
// [Handler]. No error is ever an allow.
//
// What the agent sends is believed for who asks (session, turn, working directory) and never for what a
// file holds: the difference that an edit makes is computed from the file itself.
package hooks
