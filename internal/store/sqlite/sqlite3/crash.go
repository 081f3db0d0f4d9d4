package sqlite3

import (
	"fmt"
	"runtime/debug"
)

// crash, deferred around each call into the library, ends the process where the call panics. What the library has in
// memory may then be anything: half a page, a lock that no one holds. Code that recovers further up (a handler, the
// store's writer) would go on with it, and commit. The next process begins from what is on the disk.
//
// The panic is raised again where nothing can recover it, with the stack that it came from; it ends the process with
// code 2. Until then this goroutine stands still.
func crash() {
	v := recover()
	if v == nil {
		return
	}
	report := fmt.Sprintf("SQLite has panicked, so the process ends before anything more is stored: %v\n\n%s", v,
		debug.Stack())
	go panic(report)
	select {}
}
