package sqlite

// locksDatabase: flock and the locks that SQLite takes are apart here.
const locksDatabase = true
