//go:build !linux

package sqlite

// locksDatabase: a lock of the database file would keep SQLite out.
const locksDatabase = false
