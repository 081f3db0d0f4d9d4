// Package mcp is the wire of the Model Context Protocol as a gate sees it: JSON-RPC messages whose
// envelope is read strictly and written anew, and whose contents stay the bytes they came as.
//
// The protocol has two eras. In the legacy one, up to 2025-11-25, a client opens a session with
// initialize and the server may ask the client in turn. In the modern one, from 2026-07-28, every
// request carries its own metadata and a server that needs something answers input_required. What both
// share is here; sessions, transports and rules are elsewhere.
//
// A reader that took the last of two members and a gate that took the first would see two different
// calls. [Parse] and [ReadObject] therefore refuse an object in which a name occurs twice, or twice but
// for letter case, wherever this program looks into one; objects that it only passes on stay as they are.
package mcp
