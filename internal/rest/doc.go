// Package rest serves the gate as /v1: JSON over HTTP, problem documents for refusals, server-sent
// events, and an OpenAPI 3.1 document of all of it at /openapi.json.
//
// # Who asks
//
// Every request under /v1 carries a bearer token, which makes it an agent's or a person's. An agent
// asks about calls, reads and acknowledges its own endings and may take its own requests back; a
// person lists and decides; an admin reads the notification log and the audit log too. Nothing that
// an agent sends reaches a decision: its try is put on record and refused. A decision or cancellation
// is recorded as made over the API, or, with the header X-Countersign-Client: cli, on the command line.
//
// # What is judged first
//
// A request is judged in one order, so that no caller learns from a refusal what they may not know:
// 401 for no valid token, 404 for what is not there or not theirs to see, 403 for what they may not do,
// then the form of the request (413, 415, 400), and last what the gate itself says (409, 410, 422, 429).
// A body is read strictly: JSON in UTF-8, at most 1 MiB, no unknown, repeated or only-case-differing
// names. A call's args are taken as the bytes they are and judged by [args.Parse] alone.
//
// # What an answer promises
//
// A yes is answered only after it is committed, and an answer that says a call may run has used its
// approval. Whatever goes wrong is a problem document (RFC 9457) with a code to branch on; its detail
// quotes no args, no tokens and no internal error. In an object null means that there is none, or not
// yet; a text that the agent did not give is "". Every answer carries an X-Correlation-Id, the one that
// came with the request or a new one, and so does every audit event that the request wrote. The same
// one is in the log, where an internal error stands once, in full.
//
// # Waiting
//
// Long polls and event streams are woken by commits and never poll. When [Options].Stopping is done
// they answer as if their time were up, so that a server can drain. A client that goes away while it
// waits has used nothing up.
package rest
