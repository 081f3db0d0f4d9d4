// Package channels takes cards to people and brings their words back.
//
// A [Maker] turns the requests that a notification is about into a [Card], which is plain data, and the
// notification's [Channel] renders the card to its platform's own bytes and sends them when package outbox says
// so. What the platform answers ends as a [Receipt] or as a [PushError] that says whether another try can help,
// and when.
//
// A card shows exactly what an approval of it covers. What comes from a caller is masked where it is
// secret, made visible where it would hide, and never read as markup; what does not fit is said
// loudly, with where to read all of it. No args can make a card break a platform's limits. A request
// that a person asked to see whole comes as plain text instead, uncut, in as many parts as it takes
// ([Maker.Part]).
//
// The other way, a tap's data is read by [ParseButton] and typed text by [chat.ParseWords]. Both take only
// what cannot be misread: anything else decides nothing.
//
// Each platform is a package of its own below this one.
package channels
