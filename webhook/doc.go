// Package webhook is the verified way in: what platforms post, and what people meant by it, handed to the gate. It
// knows no platform and no channel; each channel builds its way in on an [Inbound].
//
// An event is verified on the raw bytes, in constant time, before anything of it is parsed ([Inbound.Verify]); parsed
// by its channel to an interaction (who, which request, what decision, why, when); and given to the gate, which keeps
// the event's id, the decision and the answer to the tapper in one transaction. Only then is the platform answered:
// 200 once that is committed, 503 when it could not be within 1.5 seconds, so that the platform delivers again. What is
// signed but not for us is a 200 all the same, for nothing would get better by sending it again; what is signed and
// cannot be read is a 400. Unsigned requests get a 401 and are counted, not audited.
//
// Who decided is only ever the platform's own user id out of the signed body, mapped to one configured
// person; everybody else is a stranger whose tap is refused, told so and put on record.
package webhook
