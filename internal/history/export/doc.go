// Package export writes lists as files that other programs read: CSV (RFC 4180) and NDJSON, row by row to the client
// that downloads them, with no more in memory than what is written next.
//
// A list is described once, by its columns, for both forms. No cell of a CSV is one that a spreadsheet takes for a
// formula: those get a ' in front. Times are RFC 3339 in UTC. What is exported, and who may, is decided elsewhere.
package export
