// Package stdioproxy puts the gate in front of one MCP server that a client starts itself: the client starts
// `countersign mcp -- COMMAND`, and that starts the server. Tool names and results stay as the server has them. Each
// call is asked about at a gate in another process, over its API, and runs only if that gate says so. Arguments are
// sent to the gate, because people are shown them; results are not.
//
// Without the gate nothing runs: each call is answered with what went wrong and what to do. The server's process
// ends with the proxy, however the proxy ends.
package stdioproxy
