package approval

// Of ids that people type.
const (
	ShortID         = 6 // how many last characters are shown
	MinTyped        = 4 // how many are taken,
	MinTypedApprove = 6 // and how many for an approval
)

// Short returns the last characters of an id, as people are shown it.
func Short(id string) string { return id[max(0, len(id)-ShortID):] }
