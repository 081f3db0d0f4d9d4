//go:build browser

package web

var (
	_ = addLooks("history", "hana", "/history", fillRecords)
	_ = addLooks("history-wrong", "hana", "/history?risk=none&from=never&agent=bot", nil)
	_ = addLooks("audit", "hana", "/audit", fillRecords)
	_ = addLooks("audit-empty", "hana", "/audit?actor=nobody", nil)
	_ = addLooks("notifications", "hana", "/notifications", fillRecords)
)
