// Package postgrestest starts a PostgreSQL server for tests: that of Debian's package postgresql, with its defaults. It
// is there under the build tag postgres, on Linux.
package postgrestest
