// Package webhook takes the signed events of LINE and Slack and hands what people meant by them to the
// gate.
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
package webhook
