// Package mcp has the messages of the Model Context Protocol as a gate sees them: JSON-RPC messages whose
// envelope is read strictly and written anew, and whose contents stay the bytes they came as.
//
// The protocol has two eras. In the legacy era, up to 2025-11-25, a client opens a session with initialize,
// and the server may send requests to the client. In the modern era, from 2026-07-28, every request carries its
// own metadata, and a server that needs something answers input_required. This package has what both share;
// sessions, transports and rules are in other packages.
//
// If a name occurs twice in an object, the gate might read the first member and the server the last: they would
// see two different calls. [Parse] and [ReadObject] therefore refuse an object in which two names are equal, or
// differ only in letter case. Objects that are only passed on are not looked into and stay as they are.
package mcp
