// Package passkey has people sign in by a passkey, and approve with one what takes more than a press (WebAuthn).
//
// A passkey is a key pair of a person's phone, computer or security key, which asks for a finger, a face or a PIN
// before it signs. The gate knows the public half and signs in by it only the person who added it. Three things are
// asked of one: to be added, to sign in, and to step up, which is to approve one request. Each begins with a
// challenge that is made here, bound to the browser's session (or to a cookie, where no person is signed in yet) and to
// what it is for, and that counts once, within [Lasts]: what was signed for one request approves no other, and nothing
// signs twice. Until one is answered nothing is kept of it, and so strangers fill nothing: what it is for is sealed in
// the challenge itself, and a stranger's is known again by their cookie.
//
// What a step-up proves leaves this package as an [proof.Proof], which is the only way to make one. Who signs in is
// let in through a [Door], in the transaction in which the passkey is used. All else is refused with one error,
// whatever the reason; the audit log has it. Only whose passkey is right but says otherwise than before of copies is
// told so ([ErrBackup]). Keys belong to a host's name (its RP ID): to that of the pages' address, which has to be
// https or localhost.
//
// A count that goes back says that there are two of a key. Its assertion is refused and the passkey is blocked until
// its owner removes it. Who is not configured any more has no passkeys, from that moment on.
package passkey
