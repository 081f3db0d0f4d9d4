package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// envPath is where the variables of a configuration are by default: countersign.env for
// countersign.yaml.
func envPath(config string) string { return strings.TrimSuffix(config, filepath.Ext(config)) + ".env" }

// maxEnvFile is how long a file of variables may be.
const maxEnvFile = 1 << 20

// readEnv reads a file of variables: NAME=value a line, taken as it stands, empty lines and lines that
// begin with # aside. No error quotes a line, which may hold a secret.
func readEnv(path string) (vars map[string]string, names []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxEnvFile {
		return nil, nil, fmt.Errorf("%s: it is longer than 1 MiB", path)
	}
	vars = map[string]string{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch _, twice := vars[name]; {
		case !found || !variableName(name):
			return nil, nil, fmt.Errorf("%s:%d: this is not NAME=value", path, n)
		case twice:
			return nil, nil, fmt.Errorf("%s:%d: %s is listed twice; remove one", path, n, name)
		}
		if q := value; len(q) >= 2 && (q[0] == '"' || q[0] == '\'') && q[len(q)-1] == q[0] {
			value = q[1 : len(q)-1]
		}
		vars[name] = value
		names = append(names, name)
	}
	return vars, names, nil
}

// envValue is a value as [readEnv] reads it back: in quotes where it would lose a space or quotes of its own.
func envValue(s string) string {
	if quoted := len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0]; quoted || s != strings.TrimSpace(s) {
		return `"` + s + `"`
	}
	return s
}

func variableName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == "" &&
		(s[0] < '0' || s[0] > '9')
}

// variables are the environment, and a file for what is not there or empty; path is "" where there is no file.
type variables struct {
	s    *std
	path string
}

// lookup returns a variable, read anew each time: a gate that reads its configuration again must meet
// what the file says then. Of a file that cannot be read nothing is known, and trouble says why.
func (v *variables) lookup(name string) (string, bool) {
	value, set := v.s.env(name)
	if value != "" || v.path == "" {
		return value, set
	}
	vars, _, err := readEnv(v.path)
	if err != nil {
		return "", false
	}
	if filled, ok := vars[name]; ok {
		return filled, true
	}
	return value, set
}

// trouble says why the file cannot be read now.
func (v *variables) trouble() error {
	if v.path == "" {
		return nil
	}
	_, _, err := readEnv(v.path)
	return err
}

// env returns where the configuration's variables come from.
func (f *file) env(s *std) (func(string) (string, bool), error) {
	v, err := f.variables(s)
	if err != nil {
		return nil, err
	}
	return v.lookup, nil
}

// variables are the configuration's: the environment's, and those of its file if it has one.
func (f *file) variables(s *std) (*variables, error) {
	path := f.EnvFile
	if path == "" {
		path = envPath(f.Config)
	}
	info, err := os.Stat(path)
	switch {
	case f.EnvFile == "" && errors.Is(err, fs.ErrNotExist):
		return &variables{s: s}, nil
	case err != nil:
		return nil, usagef("%s; --env-file names the file of variables", err)
	}
	if _, _, err := readEnv(path); err != nil {
		return nil, usagef("%s", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(s.err, "%s: warning: others on this machine can read it, and it holds secrets; chmod 600 %[1]s\n",
			visible(path))
	}
	return &variables{s: s, path: path}, nil
}
