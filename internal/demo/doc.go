// Package demo shows Countersign to a newcomer: everything on this machine, and nothing pretended but
// the two platforms and the model.
//
// [Run] starts the real program on a configuration file of its own, the stand-ins for LINE and Slack
// with their chat page in front of it, and an agent that does real things in a scratch folder: it
// writes, archives and deletes files and moves credits in a small ledger. The agent's mind is a
// script; all else about it is as a real one should be: it asks before each call, never waits for an
// answer with its hands full, reads its feed at the start of every turn, repeats what was approved,
// and finds another way when it is told no.
package demo
