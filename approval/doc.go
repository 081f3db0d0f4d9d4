// Package approval is the domain of Countersign: the life of one tool call that a person must
// confirm, from the agent's question to the one run that a yes is good for.
//
// A [Call] comes in. The [Policy] turns it into a [Verdict]: allow, deny or quarantine. A quarantined
// call becomes a [Request], stored before the agent hears of it, at most one live request for each
// [Key]; a [Notification] takes its card to every person who should see it. A person's [Decision]
// approves or denies it, once, before its deadline. The agent, which never blocked, finds the answer
// in its feed or by asking again, and an approval lets exactly one call through.
//
//	          create                decide(approve)               consume
//	(call) ─────────▶ pending ─────────────────────▶ approved ───────────▶ approved, consumed_at set
//	                    │  │ decide(deny)                │ use_by reached
//	                    │  └────────────▶ denied         ├──────▶ approved, lapsed_at set
//	                    │ expires_at reached             │ cancel
//	                    ├────────────▶ expired           └──────▶ cancelled
//	                    └ cancel ▶ cancelled
//
// A caller of the gate's own side, which sends the call on by itself, says so: the use of an approval is
// then on record as dispatched, [Gate.Report] adds what came of it, and what nobody reported by the next
// start, or in the time that any call may take, is unknown and may have run ([Gate.Orphaned],
// [Gate.Overdue]). A tool is known by what its server says of it: one that has changed since it was first
// seen is not let through without a person ([ToolPin]).
//
// Every rule of that life is in [Gate], and in its [Work] inside a transaction. It asks a [Directory] who is who, and
// hands what people are to be told to a [Notifier], both inside its transaction; a [Store] only keeps rows, and holds
// the two rules that a race could break once more: one live request for a key, and one use of an approval. Nothing here
// speaks to a network or reads a file. No error, time-out or restart turns into a yes: whatever goes wrong, the call
// has not been allowed.
package approval
