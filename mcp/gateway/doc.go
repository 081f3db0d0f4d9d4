// Package gateway stands between MCP clients and MCP servers. It offers the servers' tools, asks the gate
// before each call, and forwards what may run or answers in the server's place.
//
// A tools/call becomes an [approval.Call] of the same arguments. What policy allows is forwarded at once,
// its record being committed meanwhile; what is quarantined is held for a while, and then answered as
// pending, so that no client's time-out ends it; the identical call later joins the same request. An
// approved call is sent from the stored bytes, once, and what came of it is recorded: succeeded, failed,
// or unknown where the connection broke after it was sent. Other methods that may have effects are asked
// for too, by their method; methods that are not known are refused.
//
// The gateway writes every envelope anew and copies only the bytes of arguments; results pass byte for
// byte. Both eras of the protocol are spoken to both sides, and what one side asks in its way the other
// is asked in its own: a legacy server's elicitation becomes input_required for a modern client, and the
// reverse.
package gateway
