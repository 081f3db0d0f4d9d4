// Package terminal lets a person decide at a terminal: [Screen] fills it with a list and the request that is looked at,
// [Plain] asks about one request after another in lines of text, for pipes, readers and terminals that can do no more.
//
// What is approved is what was shown: a decision goes to the inbox with the request as it stood on the screen, the
// selection never moves to another request by itself, and an empty line decides nothing. Of what agents and servers
// wrote nothing reaches the terminal that could move its cursor, colour it or hide a part: control and invisible
// characters are written as their code points.
package terminal
