package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

const h1 = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

// built is a binary for a system as internal/release/build builds it; its modules are a few that the program has.
func built(t *testing.T, goos string, change ...debug.BuildSetting) (*binary, error) {
	t.Helper()
	info := &debug.BuildInfo{GoVersion: "go1.26.8 X:none", Settings: append([]debug.BuildSetting{
		{Key: "GOOS", Value: goos}, {Key: "GOARCH", Value: "arm64"}, {Key: "-trimpath", Value: "true"},
		{Key: "CGO_ENABLED", Value: "0"}, {Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.modified", Value: "false"}, {Key: "vcs.time", Value: "2026-11-20T10:00:00+09:00"},
	}, change...), Deps: []*debug.Module{
		{Path: "github.com/oklog/ulid/v2", Version: "v2.1.2", Sum: h1},
		{Path: "golang.org/x/text", Version: "v0.43.0", Replace: &debug.Module{Path: "example.com/text",
			Version: "v1.0.0+incompatible", Sum: h1}},
	}}
	b := &binary{data: []byte("the program for " + goos), info: info}
	return b, b.settings()
}

func release(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	var all []*binary
	for _, goos := range []string{"linux", "windows"} {
		b, err := built(t, goos)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if err := pack("v1.2.3", dir, all, []file{{"deploy/a.service", 0o644, []byte("[Unit]\n")}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAReleaseIsTheSameBytesTwice(t *testing.T) {
	one, two := release(t), release(t)
	list := content(t, filepath.Join(one, sums))
	if got := content(t, filepath.Join(two, sums)); got != list {
		t.Errorf("the checksums differ:\n%s\n%s", list, got)
	}
	files, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	if want := 5; len(files) != want || strings.Count(list, "\n") != want-1 {
		t.Errorf("%d files for %d checksums, want %d for all others:\n%s", len(files), strings.Count(list, "\n"), want, list)
	}
}

func TestArchivesHoldTheProgramAndWhatGoesWithIt(t *testing.T) {
	dir := release(t)
	at := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	want := []string{"countersign 0755", "THIRD-PARTY-LICENSES.txt 0644", "deploy/a.service 0644"}

	z, err := gzip.NewReader(strings.NewReader(content(t, filepath.Join(dir, "countersign_v1.2.3_linux_arm64.tar.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for _, w := range want {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %04o", h.Name, h.Mode); got != "countersign_v1.2.3_linux_arm64/"+w ||
			!h.ModTime.Equal(at) || h.Uname != "" || h.Uid != 0 {
			t.Errorf("%s at %s of %q, want %s at %s of nobody in particular", got, h.ModTime, h.Uname, w, at)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last file comes %v", err)
	}

	data := content(t, filepath.Join(dir, "countersign_v1.2.3_windows_arm64.zip"))
	w, err := zip.NewReader(strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if first := w.File[0]; len(w.File) != len(want) || first.Name != "countersign_v1.2.3_windows_arm64/countersign.exe" ||
		!first.Modified.Equal(at) {
		t.Errorf("the zip begins with %s at %s and has %d files", first.Name, first.Modified, len(w.File))
	}
}

func TestLicencesOfAllModulesAreInTheArchive(t *testing.T) {
	b, err := built(t, "linux")
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.licences()
	for _, want := range []string{"==== Go: LICENSE\n", "==== github.com/oklog/ulid/v2: LICENSE\n",
		"==== golang.org/x/text: PATENTS\n"} {
		if err != nil || !bytes.Contains(got, []byte(want)) {
			t.Errorf("%q is not there: %v", want, err)
		}
	}
}

// What may not be passed on should be noticed when the module comes in, and not at the release.
func TestEveryModuleOfTheProgramHasALicence(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", // real: a list
		"../../../cmd/countersign")
	list.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	b := &binary{info: &debug.BuildInfo{}}
	seen := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		if !seen[name] {
			b.info.Deps = append(b.info.Deps, &debug.Module{Path: name})
		}
		seen[name] = true
	}
	if len(seen) < 20 {
		t.Fatalf("the program has only the modules %v", seen)
	}
	if _, err := b.licences(); err != nil {
		t.Error(err)
	}
}

func TestTheBillNamesWhatIsLinked(t *testing.T) {
	b, err := built(t, "linux")
	if err != nil {
		t.Fatal(err)
	}
	bill, err := b.bill("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(bill) {
		t.Error("it is not JSON")
	}
	testkit.Golden(t, "testdata/bill.cdx.json", bill)
}

func TestWhatCannotBeBuiltAgainIsNoRelease(t *testing.T) {
	for name, set := range map[string]debug.BuildSetting{
		"paths of a machine":  {Key: "-trimpath", Value: "false"},
		"a C compiler":        {Key: "CGO_ENABLED", Value: "1"},
		"changes":             {Key: "vcs.modified", Value: "true"},
		"no commit":           {Key: "vcs.revision"},
		"no time of a commit": {Key: "vcs.time", Value: "yesterday"},
	} {
		if _, err := built(t, "linux", set); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(test); err == nil {
		t.Error("the binary of this test, which go test built without a commit: no error")
	}
}

func TestWhatIsNoRelease(t *testing.T) {
	b, err := built(t, "linux")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := built(t, "linux")
	if err != nil {
		t.Fatal(err)
	}
	folder.info.Deps[1].Replace.Sum = ""
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, sums), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, missing := read([]string{"none"})
	for name, try := range map[string]error{
		"a version without v":            pack("1.2.3", t.TempDir(), []*binary{b}, nil),
		"a branch":                       pack("main", t.TempDir(), []*binary{b}, nil),
		"nothing":                        pack("v1.2.3", t.TempDir(), nil, nil),
		"twice the same system":          pack("v1.2.3", t.TempDir(), []*binary{b, b}, nil),
		"a module that is a folder":      pack("v1.2.3", t.TempDir(), []*binary{folder}, nil),
		"into the folder of another one": pack("v1.2.3", full, []*binary{b}, nil),
		"a file that is not there":       missing,
		"a module without a licence":     licence(new(bytes.Buffer), "example.com/none", t.TempDir()),
	} {
		if try == nil {
			t.Errorf("%s on %s: no error", name, runtime.GOOS)
		}
	}
}
