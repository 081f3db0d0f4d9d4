// Package emulator stands in for LINE and Slack, and for the programs of people who have neither: two chat platforms
// and a receiver of webhooks on this machine, without accounts and without a network. The demo uses it as the chat its
// visitors tap in; the tests use it as the other side of every conversation.
//
// It was written from the platforms' own documents and shares no code with the clients that talk to it, so that a
// misread field name fails here as it would fail there. A program under test differs from production in one setting,
// the API's base URL ([LINE.URL], [Slack.URL]); a person's webhook is at [Webhooks.URL].
//
// An [Emulator] is what all of it has in common: the people, one lock, the record of calls, the server. [LINE], [Slack]
// with its [SlackViews] and [SlackSockets], [Webhooks] and the [Page] are its parts, each with a state of its own under
// that lock.
//
// # What a request goes through
//
// A call to one of the two APIs is recorded ([Emulator.Calls]), may be held ([Emulator.Hold]) or made to fail
// ([Emulator.Fail]), is checked for its token, its size and its content type, and then, property by property, against
// the platform's schemas and limits. What the platform would refuse is refused with the platform's error body and noted
// as a [Violation]; what it would accept becomes a message in a chat, with the ids, the quote tokens and the timestamps
// that the platform would give out. LINE's retry keys are remembered for 24 hours: a key that was accepted answers 409
// with the first answer's messages and sends nothing.
//
// Where a document leaves something open, the stand-in takes the stricter reading: 30 KB are 30,000 bytes, and lengths
// on Slack are counted in UTF-16 units. A message that passes here is inside the limit whichever reading is right.
//
// # What a person does
//
// [LINE.Tap], [LINE.Type], [Slack.Tap], [Slack.Type] and their neighbours build the event the platform would build,
// sign it, post it to the webhook that was set with [Emulator.SetWebhooks], and return the answer as a [Delivery]. The
// steps are exported too ([LINE.PostbackEvent], [LINE.Post], [Slack.BlockActions], [Slack.Post]): a test can forge,
// age, alter or replay an event by overriding what it likes.
//
// Cards lead on to more: a LINE button may fill in the keyboard, which [LINE.Complete] types on from; a Slack button
// may open a modal ([SlackViews.Wait], [SlackViews.Submit], [SlackViews.Close]); the Home tab is opened with
// [SlackViews.OpenHome] and pressed with [SlackViews.TapHome].
//
// # Socket Mode
//
// An app that calls apps.connections.open with [SlackConfig]'s AppToken and opens the address it is given gets
// everything Slack has to say over that WebSocket: the same payloads, in envelopes, in turn over however many sockets
// are open. A Delivery then holds the envelope, and the acknowledgement as its answer. From the first socket on nothing
// is posted to the webhook, even while no socket is open, until [SlackSockets.SetMode] switches it off. Sockets are
// told to disconnect, cut and frozen with [SlackSockets.Disconnect], [SlackSockets.Cut] and [SlackSockets.Freeze].
//
// # What can be looked at
//
// The chats themselves ([LINE.Chat], [Slack.Messages]), modals and Home tabs ([SlackViews.All], [SlackViews.Home]),
// posts to response URLs, webhooks that were received ([Webhooks.Received]), all calls and all violations.
// [Emulator.WaitFor] waits for any condition over them and is woken by changes; nothing polls. The page at "/" draws
// both chats from the very JSON that was sent, on a phone's width, with working buttons.
//
// Nothing here belongs in production: every secret is known to whoever holds the Emulator, and the page lets its
// visitor act as anybody.
package emulator
