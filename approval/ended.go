package approval

// Ended tells a caller who waited for r how it ended; the outcome is pending if it has not, or is approved
// and may still be used.
func Ended(r Request) Answer { return endedAnswer(r) }
