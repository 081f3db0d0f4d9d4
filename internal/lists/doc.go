// Package lists reads what waits, what was asked and what is on record, page by page, for those who show it: pages, the
// API and files. It decides nothing. What is due is ended before it is shown ([approval.LookSettled]), and times are as
// the machine's clock has them.
package lists

import "countersign/approval"

// listBytes is the budget of a list for which a caller asks for want.
func listBytes(want int) int {
	if want <= 0 {
		return approval.ListBytes
	}
	return min(want, approval.ListBytes)
}
