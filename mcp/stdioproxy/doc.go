// Package stdioproxy puts the gate around one MCP server that a client starts itself: the client starts the
// wrapper, and the wrapper the server. The server's names and results stay as they are; each call is asked
// for at a gate in another process, over its API, and runs only as that gate says. Arguments go to the
// gate, because people are shown them; results do not.
//
// Without the gate nothing runs: each call is answered with what went wrong and what to do. The server's
// process ends with the wrapper, whichever way that ends.
package stdioproxy
