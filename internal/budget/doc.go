// Package budget keeps what each principal may use: calls and bytes per minute, requests and pushes that
// it makes, streams, waits and sessions that it holds. Whoever is over one of them is refused, with an
// [approval.Error] that says which, how much it is and when to try again; nobody else notices.
//
// A rate is kept by the generic cell rate algorithm, in one atomic word: how long it takes until all that
// was used is free again. What a rate allows at once is a minute's worth, of a rate per hour a quarter of
// an hour's, and never more than 1000 calls or 16 MiB, or two seconds' worth of those; a single thing that
// is larger than that passes while nothing else is owed. Of pushes 60 are there at once, and what is over them is
// not refused: it is told when its turn is. Pushes are counted twice, as they are asked for and as they go out.
//
// Beside what is counted there are turns: what is large is worked on one thing at a time for each principal.
package budget
