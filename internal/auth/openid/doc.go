// Package openid signs people in at an OpenID Connect provider: another program says who they are.
//
// A sign-in has two halves. [Service.Begin] makes an address at the provider, to which the browser goes, and a sealed
// cookie, which stays in it. [Service.Finish] takes what the browser brings back. The state in the address and that in
// the cookie must agree, so an answer counts only in the browser that asked. The code in the answer is worth nothing
// without the verifier in the cookie (PKCE), and the signed token counts only with the nonce from the cookie, for our
// client id, from our issuer, at this time, and signed with a key that the provider alone has.
//
// Who that is, is found in the configuration: a person's own subject at the provider, or their e-mail address, where
// the provider has verified it and its domain is one that the operator trusts it with. A person who is not found is
// told the same, whatever it was that did not fit.
//
// The provider's configuration is fetched when it is first needed and kept for an hour. While the provider cannot be
// reached nobody signs in this way, and nothing else is concerned. All its answers are bounded in size and time; it can
// redirect a request nowhere but to itself.
package openid
