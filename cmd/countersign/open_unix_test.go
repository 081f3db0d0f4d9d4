//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// The command line of a program can be read by every user of the machine: the link is not on it, and what leads there
// is for this user alone and does not stay.
func TestTheLinkIsNotOnTheBrowsersCommandLine(t *testing.T) {
	const link = "https://gate.example.com/signin/link?t=one-time&x=<b>"
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	browser := filepath.Join(dir, "browser")
	script := "#!/bin/sh\nls -l \"$1\" > " + dir + "/mode\ncp \"$1\" " + dir + "/page\necho \"$0 $@\" > " + dir +
		"/half\nmv " +
		dir + "/half " + dir + "/line\n"
	if err := os.WriteFile(browser, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- openPage(ctx, []string{browser}, link, time.Hour) }()
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	testkit.Eventually(t, "the browser", func() bool { return read("line") != "" })
	if line := read("line"); strings.Contains(line, "one-time") || strings.Contains(line, "gate.example.com") {
		t.Errorf("the command line is %s", line)
	}
	if mode := read("mode"); !strings.HasPrefix(mode, "-rw-------") {
		t.Errorf("the file is %s", mode)
	}
	if page := read("page"); !strings.Contains(page,
		`content="0; url=https://gate.example.com/signin/link?t=one-time&amp;x=&lt;b&gt;"`) {
		t.Errorf("the page is\n%s", page)
	}
	stop()
	if err := testkit.Receive(t, "the end", done); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
	if err := openPage(t.Context(), []string{filepath.Join(dir, "none")}, link, time.Hour); err == nil {
		t.Error("a browser that is not there was opened")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
