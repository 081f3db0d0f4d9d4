// Package chromium drives a headless Chromium for the tests that carry the build tag browser, as a person would: by
// mouse, by keyboard, at a phone's width, in the dark; and lets axe-core look at what there is. Chromium is found on
// the path or named by the environment variable CHROMIUM; without one the tests fail, for a test that does not run
// shows nothing.
package chromium

import "testing"

// Tests are the tests of a package, for its TestMain to run: they share one browser, which ends with them.
type Tests struct{ *testing.M }

var (
	running bool
	stop    = func() {}
)

// Run runs the tests.
func (t Tests) Run() int {
	running = true
	code := t.M.Run()
	stop()
	return code
}
