package history

// InStepsOf has statistics read so many rows at a time.
func InStepsOf(q Query, rows int) Query {
	q.stepRows = rows
	return q
}
