// Package signin says who looks at the pages: it turns a one-time link, a person's own token, an OpenID provider's word
// or a passkey into a session, and a session's cookie back into a person.
//
// A link is made where a person is known already: by what they typed in a chat, or with their token on a terminal. It
// signs in once, within [LinkLasts]. To look at it spends nothing, so that those who open links unasked (previews,
// prefetchers, scanners of mail) spend none: only [Service.Redeem] does, which the form of the link's page posts to.
//
// Links and sessions keep what was shown for them ([Opener]), as it was when it was checked. With that goes what began
// with it, and what was taken back meanwhile begins nothing.
//
// A session lasts [SessionLasts], and [IdleLasts] from when it was last seen. It keeps a name and nothing else of who
// somebody is: what they may do is looked up each time, and a person who is not configured any more has no session from
// then on. Its secret is made when it starts, so that no other program can have put one into a browser beforehand.
//
// Browsers give a cookie of this machine to every port of it. A session that starts there is marked in its secret, and
// takes a key for all that is done in it, which only the answer to signing in holds ([NeedsKey], [Service.Key]).
//
// Secrets are 256 random bits. They are stored as their SHA-256 and found by that: what a look-up takes says nothing of
// how much of a guess was right. All that is refused is refused with the same error, whatever the reason, which only
// the audit log has. An agent gets no session: its name is no person's.
package signin
