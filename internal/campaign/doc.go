// Package campaign holds the gate against everything that goes wrong at once. A seeded load of agents and people comes
// through every way in, while the program is killed, stopped, starved of room, told another time and let down by its
// platforms. What agents, people, platforms and servers saw of it is a [History], and [Check] says which rule it
// breaks.
//
// The checker is a model of its own: it knows what the design promises, and nothing of how the gate keeps it. So it
// imports nothing of ours. What it cannot know it leaves open: an operation without an answer may have happened or
// not, and of two that overlapped either may have been first. It reports only what no order of events explains.
//
// The load, the faults and the broken variants of the gate are in the tests, for one program with its file and, under
// the build tag postgres, for three that share a database:
//
//	go test ./internal/campaign -run Campaign -seed 7 -for 1h
//	go test -tags=postgres ./internal/campaign -run CampaignOnPostgreSQL -seed 7 -for 1h -timeout 2h
package campaign
