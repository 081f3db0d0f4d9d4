// Package powercut has tests see what SQLite writes as a disk does whose power may go: what was not synced is lost. It
// has syncs fail, too. It is there on Linux.
package powercut
