// Command clock makes an overlay for go build and go test with which time.Now is moved: outside synctest
// bubbles, whose time is their own, the wall clock shows another time. The monotonic clock stays as it is,
// so that waits and what time.Since measures are not touched.
//
//	go run .ci/clock/main.go -by -30h -dir DIR
//
// writes DIR/overlay.json and what it names, shows with a small program that time moves, and prints the
// path, for GOFLAGS=-overlay=PATH. Set it in the environment: then programs that tests build have the same
// clock. File times and programs not written in Go keep the machine's.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// before is where time.Now of Go 1.26 has its reading; a bubble's has no monotonic part and returns there.
const before = `	sec, nsec, mono := runtimeNow()
	if mono == 0 {
		return Time{uint64(nsec), sec + unixToInternal, Local}
	}
	mono -= startNano
`

func main() {
	by := flag.Duration("by", 0, "how far the clock is moved, in whole seconds: -30h, 12000h")
	dir := flag.String("dir", "", "an existing folder for the overlay")
	now := flag.Bool("now", false, "only print the seconds since 1970")
	flag.Parse()
	if *now {
		fmt.Println(time.Now().Unix())
		return
	}
	path, err := overlay(*dir, *by)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func overlay(dir string, by time.Duration) (string, error) {
	if dir == "" || by == 0 || by%time.Second != 0 {
		return "", fmt.Errorf("-dir and -by, in whole seconds and not 0, are needed")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	root, err := goRun("env", "GOROOT")
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), before); n != 1 {
		return "", fmt.Errorf("%s is not the source that this program was written for: the beginning of func Now stands "+
			"there %d times. "+
			"See how time.Now of this version of Go takes its reading, and change `before` in .ci/clock/main.go", source, n)
	}
	moved := filepath.Join(dir, "time.go")
	after := before + fmt.Sprintf("\tsec += %d // moved by .ci/clock\n", int64(by/time.Second))
	if err := os.WriteFile(moved, []byte(strings.Replace(string(text), before, after, 1)), 0o644); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: moved}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return "", err
	}
	return path, moves(path, by)
}

// moves shows that a program built with the overlay sees the moved clock.
func moves(path string, by time.Duration) error {
	out, err := goRun("run", "-overlay="+path, ".ci/clock/main.go", "-now")
	if err != nil {
		return err
	}
	sec, err := strconv.ParseInt(out, 10, 64)
	if err != nil {
		return err
	}
	if off := time.Unix(sec, 0).Sub(time.Now()) - by; off.Abs() > 5*time.Minute {
		return fmt.Errorf("a program built with the overlay is %v from where its clock should be", off)
	}
	return nil
}

func goRun(args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
