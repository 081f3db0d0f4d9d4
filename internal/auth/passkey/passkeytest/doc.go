// Package passkeytest is a security key for tests: it makes passkeys (ES256, with a packed attestation of its own or
// none) and signs with them as browsers have keys do, and it lies where a test asks for that. It shares no code with
// what checks it.
package passkeytest
