// Package webhook takes the events of LINE and Slack and hands what people meant by them to the gate.
//
// An event is verified on the raw bytes, in constant time, before anything of it is parsed; parsed to
// a tap (who, which request, what decision, why, when); and given to the gate, which keeps the event's
// id, the decision and the answer to the tapper in one transaction. Only then is the platform answered:
// 200 once that is committed, 503 when it could not be within 1.5 seconds, so that the platform
// delivers again. What is signed but not for us, or not understood, is a 200 all the same: nothing
// would get better by sending it again. Unsigned requests get a 401 and are counted, not audited.
//
// Who decided is only ever the platform's own user id out of the signed body, mapped to one configured
// person; everybody else is a stranger whose tap is refused, told so and put on record.
//
// LINE has no dialogs: a denial asks why, and the next text tells. In Slack a denial, and an approval that
// needs a reason, opens a dialog while the button's delivery is still open; what comes back out of it is
// a tap of its own, judged anew. Where no dialog opens, a denial is carried out without one.
//
// Slack can be reached without an address of our own: a [Socket] is a connection that we open to it, and
// what comes over it takes the same way, acknowledged where a webhook would answer 200. The package socketmode of
// slack-go is not used for it: a program can acknowledge after its commit there, but when Slack announces the end
// of a connection it closes the old one before it opens the new, and what is pressed in between is lost.
package webhook
