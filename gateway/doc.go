// Package gateway stands between MCP clients and MCP servers: it offers the servers' tools, asks the gate
// before each call, and forwards what may run or answers in the server's place.
package gateway
