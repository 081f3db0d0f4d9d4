// Package logins keeps the tokens with which a person's command line talks to gates: one file for each gate, in the
// folder of this user's configurations, which only this user may read.
//
// A token is used at exactly the address that it was stored for. A file that others may read, that is not this user's,
// or that is no plain file is not used but refused: another user may have put it there, or have read it. No error and
// no printed value holds a token.
//
// A program that runs as this user can read such a file. Where a coding agent runs so, a stored token would let it
// decide what it asks for; the command line therefore stores none where hooks of one are installed, and a policy's
// guard of the gate's files knows this folder by its name.
package logins
