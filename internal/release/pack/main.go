package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// sums is the file of checksums, in the form that sha256sum -c reads.
const sums = "SHA256SUMS"

func main() {
	version := flag.String("version", "", "the version, as v1.2.3")
	out := flag.String("out", "", "the folder to write to, new or empty")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: pack -version v1.2.3 -out DIR BINARY... -- FILE...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	binaries, files := flag.Args(), []string(nil)
	if i := slices.Index(binaries, "--"); i >= 0 {
		binaries, files = binaries[:i], binaries[i+1:]
	}
	if err := run(*version, *out, binaries, files); err != nil {
		fmt.Fprintf(os.Stderr, "pack: %v\n", err)
		os.Exit(1)
	}
}

func run(version, out string, names, files []string) error {
	var binaries []*binary
	for _, name := range names {
		b, err := open(name)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	beside, err := read(files)
	if err != nil {
		return err
	}
	return pack(version, out, binaries, beside)
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// pack writes the archives and bills of binaries to out, and the checksums of all that.
func pack(version, out string, binaries []*binary, beside []file) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("%q is not a version as v1.2.3", version)
	}
	if len(binaries) == 0 {
		return errors.New("no binary is named")
	}
	made := map[string][]byte{}
	for _, b := range binaries {
		base := fmt.Sprintf("countersign_%s_%s_%s", version, b.os, b.arch)
		licences, err := b.licences()
		if err != nil {
			return err
		}
		name, archive, err := b.archive(base,
			append([]file{b.program(), {"THIRD-PARTY-LICENSES.txt", 0o644, licences}}, beside...))
		if err != nil {
			return err
		}
		bill, err := b.bill(version)
		if err != nil {
			return err
		}
		if made[name] != nil {
			return fmt.Errorf("two binaries are for %s on %s", b.os, b.arch)
		}
		made[name], made[base+".cdx.json"] = archive, bill
	}
	return write(out, made)
}

// write puts files into out, and beside them their checksums.
func write(out string, files map[string][]byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	old, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		return fmt.Errorf("%s is not empty", out)
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var list bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files[sums] = list.Bytes()
	for _, name := range append(names, sums) {
		if err := os.WriteFile(filepath.Join(out, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file is one file of an archive.
type file struct {
	name string // with slashes
	mode fs.FileMode
	data []byte
}

// read reads files and folders, by their names below the working directory.
func read(names []string) ([]file, error) {
	var all []file
	for _, name := range names {
		err := filepath.WalkDir(name, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !d.Type().IsRegular() {
				return fmt.Errorf("%s is not a file", at)
			}
			data, err := os.ReadFile(at)
			all = append(all, file{path.Clean(filepath.ToSlash(at)), 0o644, data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// binary is a built program, and what its build says of it.
type binary struct {
	data     []byte
	info     *debug.BuildInfo
	os, arch string
	revision string
	at       time.Time // of the commit
}

// open reads a binary. It must be built from a commit, with nothing changed since.
func open(name string) (*binary, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b := &binary{data: data, info: info}
	if err := b.settings(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func (b *binary) settings() error {
	set := map[string]string{}
	for _, s := range b.info.Settings {
		set[s.Key] = s.Value
	}
	b.os, b.arch, b.revision = set["GOOS"], set["GOARCH"], set["vcs.revision"]
	if set["-trimpath"] != "true" || set["CGO_ENABLED"] != "0" {
		return errors.New("it was not built with -trimpath and CGO_ENABLED=0, so nobody could build it again")
	}
	if b.revision == "" || set["vcs.modified"] != "false" {
		return errors.New("it was not built from a commit with nothing changed since, so nobody could build it again")
	}
	at, err := time.Parse(time.RFC3339, set["vcs.time"])
	b.at = at.UTC()
	return err
}

func (b *binary) program() file {
	if b.os == "windows" {
		return file{"countersign.exe", 0o755, b.data}
	}
	return file{"countersign", 0o755, b.data}
}
