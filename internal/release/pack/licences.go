package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// folders says in which folders modules are.
func folders(paths []string) (map[string]string, error) {
	if len(paths) == 0 {
		return map[string]string{}, nil
	}
	list := exec.Command("go", append([]string{"list", "-m", "-f", "{{.Path}}\t{{.Dir}}"}, paths...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		dirs[name] = dir
	}
	return dirs, nil
}

// The files in which a module's licence stands, and what it wants to be passed on beside it.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences are the texts that have to go with the binary: of Go itself and of each module, in its own words.
func (b *binary) licences() ([]byte, error) {
	var paths []string
	for _, m := range b.info.Deps {
		paths = append(paths, m.Path)
	}
	at, err := folders(paths)
	if err != nil {
		return nil, err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	at["Go"] = strings.TrimSpace(string(goroot))
	var buf bytes.Buffer
	for _, name := range append([]string{"Go"}, paths...) {
		if err := licence(&buf, name, at[name]); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), nil
}

// licence adds a module's texts. A module without any is an error: nobody may pass it on.
func licence(buf *bytes.Buffer, name, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the licence of %s: %w", name, err)
	}
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool {
		return !f.Type().IsRegular() || !legal.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go")
	})
	if len(files) == 0 {
		return errors.New("no licence is in the folder of " + name)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\r\n"), []byte("\n"))
		fmt.Fprintf(buf, "==== %s: %s\n\n%s\n\n", name, f.Name(), text)
	}
	return nil
}
