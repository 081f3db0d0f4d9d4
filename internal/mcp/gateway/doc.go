// Package gateway stands between MCP clients and MCP servers. It offers the servers' tools to clients, asks the
// gate about each call, and then either forwards the call or answers it in the server's place.
//
// A tools/call becomes an [approval.Call] with the same arguments. What happens next depends on the answer:
//
//   - Allowed by policy: the call is forwarded at once. Its record is committed while it is forwarded, and the
//     client gets its result once the record is durable.
//   - A person is needed: the call waits for a while and is then answered as pending, so that the client does not
//     time out. The same call made again later joins the same request.
//   - Approved: the stored arguments are sent, once. What came of the call is recorded: succeeded, failed, or unknown
//     if the connection broke after it was sent.
//
// Other methods that may have effects are asked about too, by their method. Unknown methods are refused.
//
// The gateway writes every envelope itself and copies only the bytes of arguments; results are passed on byte for
// byte. It speaks both eras of the protocol to both sides and translates between them: a legacy server's elicitation
// becomes input_required for a modern client, and the other way round.
package gateway
