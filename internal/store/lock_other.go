//go:build !linux

package store

// locksDatabase: a lock of the database file would keep SQLite out.
const locksDatabase = false
