//go:build browser

package web

import "net/http"

var (
	_ = addLooks("history", "hana", "/history", fillRecords)
	_ = addRefusedLook("history-wrong", "hana", "/history?risk=none&from=never&agent=bot", http.StatusBadRequest, nil)
	_ = addLooks("audit", "hana", "/audit", fillRecords)
	_ = addLooks("audit-empty", "hana", "/audit?actor=nobody", nil)
	_ = addLooks("notifications", "hana", "/notifications", fillRecords)
)
