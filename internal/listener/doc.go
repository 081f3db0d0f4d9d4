// Package listener bounds what strangers can occupy before the program knows who they are.
//
// A [Listener] holds at most so many connections. One more takes the place of the one that has done nothing
// for the longest time: first of those that never showed who they are, and of these the ones of the address
// that has most. So whoever fills a listener only pushes out their own, and nobody is shut out for longer
// than it takes to connect. A connection on which somebody known is being answered is never closed. So that agents
// who wait do not hold all of them, [Wait] refuses beyond three quarters, and [Known] protects agents' connections
// up to seven eighths: the rest is kept for people, webhooks and operations. What is
// not enough for all (file descriptors) is divided beforehand by [Share], so that a listener that is full
// leaves the others theirs.
//
// Its [Listener.Handler] has a request refused without its body: an answer that is given before the body has
// arrived is sent at once and ends the connection. [Bodies] limits the bodies that are on their way, in
// number and in the bytes that have come; where there is one too many, the oldest of the sender with most
// gives way, and its reader gets [ErrBusy].
//
// [Listen] takes both addresses of localhost or neither, so that nobody else passes for the gate at the other.
// [Proxies] says who sent a request that a proxy brought. A [Certificate] is read again when its files change; broken
// files leave the earlier one in use.
//
// The package decides nothing about anybody: who is known is told to it, by [Known].
package listener
