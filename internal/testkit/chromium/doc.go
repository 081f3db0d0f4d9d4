// Package chromium drives a headless Chromium for the tests that carry the build tag browser, as a person would: by
// mouse, by keyboard, at a phone's width, in the dark; and lets axe-core look at what there is. Chromium is found on
// the path or named by the environment variable CHROMIUM; without one the tests fail, for a test that does not run
// shows nothing.
package chromium
