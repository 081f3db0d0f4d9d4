// Package client talks to a Countersign server's /v1.
//
// An agent asks before it acts and runs a call only if the [Answer] says so; asking again after a
// person approved lets the call through once:
//
//	answer, err := c.Call(ctx, client.Call{Tool: "transfer_credits", Args: args})
//	switch {
//	case err != nil:              // not allowed: an error is never a yes
//	case answer.MayRun():         // run it now, once
//	default:                      // tell the model answer.Message
//	}
//
// [Client.CallWait] holds until a person decides, [Client.Feed] brings the endings of what was asked
// earlier, and people list, decide and watch with [Client.Approvals], [Client.Decide] and
// [Client.Events]. Where a request takes several people a decision is a vote: [Decided] says how far it is.
//
// A person may approve other arguments than were asked for. A [Call] with AcceptsEdits is then answered with
// them, in [Answer].Args, which is what to run; any other is denied, and its message says what to ask for.
//
// A program that sends a call on for another one sets [Call].Dispatch and says with [Client.Report] what came
// of it, so that the next person who is asked about the same call knows whether it ran.
//
// Every method takes a context and returns an [*Error] for whatever the server refused; any other
// error means that the server was not reached or not understood. Nothing is tried twice by itself,
// save that [Client.Events] and [Client.Feed] take up again where they were cut off. Redirects are
// not followed, so the token goes to the configured address only, and it is in no error and no
// printed Client.
package client
