// Package web is the pages on which people decide: the inbox, a request, and what is around them.
//
// Pages are made on the server ([html/template]) and work without JavaScript; a small script of our own keeps them
// current. Who looks is known by a session's cookie and by nothing else: a form says what is done, never who does it,
// and an agent's token opens no page. At an address of this machine a cookie proves too little, since every port gets
// it: there a form also brings the session's key, for which it takes that script (key.go). What a page has done is
// decided by the gate, in the same functions as everywhere.
//
// Every answer says that it must not be kept, framed or given to others, and that no script but ours runs in it
// ([header]); what changes something is a POST from one of our own pages ([http.CrossOriginProtection]); requests that
// name a host which is not ours are refused, so that no other page reaches these under a name of its own.
//
// Each area of pages is a type that holds what they need and has their routes, in a file of its own, with a template
// and a catalogue in locale under the area's name. exchange.go is one request of a browser; frame.go lists the routes
// and is what all pages share.
package web
