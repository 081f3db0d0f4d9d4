// Package yamlpos reads YAML strictly, and knows where in the file each value stands.
//
// [Parse] makes a [Node] of a file: one document without anchors, aliases, merge keys, tags or duplicate keys, in
// which each ${NAME} of a text is replaced by the environment's. A [Decoder] stores it in Go values by their yaml
// tags, or a program reads the nodes itself. Neither stops at the first mistake: each is reported with its
// [Position] and what to write instead, and without the value, which may be a secret with a slip in it.
//
// A file may come from anybody: its size, its nesting and what its aliases unfold to are bounded.
package yamlpos
