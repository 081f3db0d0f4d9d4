// Bench puts load on a gate and says how fast it was beside what the machine can do at all.
//
// Absolute figures say little: a disk's syncs per second swing tenfold within minutes. So each figure is taken in turns
// with its ceiling, in short rounds, and what is reported is the median of the rounds' ratios. The ceilings are a file
// that is appended to and synced, a log that 64 clients share, a server that answers JSON with the same JSON, and a
// proxy that does nothing but what any gateway has to.
//
// It is a program of its own, for those who work on the gate, and no part of theirs who run one:
//
//	go build ./cmd/countersign && go run ./internal/bench -dir DIR
//
// The gate is a process of its own, started for the run with a store in a folder of the run ([Run]); so are the
// servers that it is measured beside ([Part]). Or it is one that runs already, of which nothing is asked but what the
// caller names ([Given]): a load generator must not reach people's phones by accident.
//
// It knows the program by its front doors and shares no code with it, but for the stand-in for LINE.
package main
