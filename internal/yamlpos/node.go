package yamlpos

import "math"

// Position is a place in a file; lines and columns count from 1. The zero Position is no place.
type Position struct{ Line, Column int }

// Kind tells the kinds of nodes apart.
type Kind int

const (
	Null Kind = iota // nothing was said
	Bool
	Int
	Float
	NotFinite // .inf and .nan
	Text
	List
	Mapping
)

// Node is a value of a file. It is not changed after [Parse] made it; what an alias names is one node in all its
// places.
type Node struct {
	Kind     Kind
	Position Position // where a reader sees it begin

	// Source is a scalar as it is written; that of a Text is without its quotes, and with its variables replaced.
	Source string
	// Written is a Text without its quotes and with its variables as they are named.
	Written string
	Quoted  bool // a Text in quotes or a block, which is no number whatever it looks like
	// TextStart is where the first character of a Text stands, if its own lines and columns can be added to that:
	// not for folded text, escapes, or where a variable was replaced.
	TextStart Position

	True    bool    // a Bool's value
	Items   []*Node // of a List
	Entries []Entry // of a Mapping; those that << brings come after its own

	integer any // an Int's value, int64 or uint64
	size    int // how many values there are in it, itself counted
}

// Entry is a key of a mapping with its value.
type Entry struct {
	Key         string
	KeyPosition Position
	Value       *Node
}

// Place returns where the entry's value stands, or its key if there is no value.
func (e Entry) Place() Position {
	if e.Value.Kind == Null {
		return e.KeyPosition
	}
	return e.Value.Position
}

// Scalar returns a scalar as it was written, whatever YAML takes it for.
func (n *Node) Scalar() (string, bool) {
	switch n.Kind {
	case Text, Int, Float, Bool, NotFinite:
		return n.Source, true
	}
	return "", false
}

// Whole returns a whole number that fits.
func (n *Node) Whole() (int64, bool) {
	switch i := n.integer.(type) {
	case int64:
		return i, true
	case uint64:
		return int64(i), i <= math.MaxInt64
	}
	return 0, false
}
