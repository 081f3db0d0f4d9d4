package settings

import (
	"bytes"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// hookName is what our hooks are called where an agent gives hooks names.
const hookName = "countersign"

// switches are the settings of all agents that keep hooks from running, or from reaching the gate. Names count
// by letter case, as the agents read them.
type switches struct {
	DisableAllHooks bool `json:"disableAllHooks"` // Claude Code
	HooksConfig     struct {
		Enabled  *bool    `json:"enabled"`
		Disabled []string `json:"disabled"`
	} `json:"hooksConfig"` // Gemini CLI, and what follows
	Security struct {
		Redaction struct {
			Enabled bool     `json:"enabled"`
			Allowed []string `json:"allowed"`
		} `json:"environmentVariableRedaction"`
	} `json:"security"`
}

// Warnings says, a sentence each, what in an agent's settings keeps the hooks from running or from reaching the
// gate, and what mends it. Settings that cannot be read give none: [Settings.Add] refuses them.
func (s Settings) Warnings(text []byte) []string {
	var is switches
	if !decode(text, &is) {
		return nil
	}
	var ws []string
	switch s.Agent {
	case ClaudeCode:
		if is.DisableAllHooks {
			ws = append(ws, `"disableAllHooks" is true, so no hook runs and the gate is asked about nothing; take it out`) //nolint:lll // one literal
		}
	case Gemini:
		if on := is.HooksConfig.Enabled; on != nil && !*on {
			ws = append(ws, `"enabled" is false under "hooksConfig", so no hook runs and the gate is asked about nothing; take it out`) //nolint:lll // one literal
		}
		if slices.Contains(is.HooksConfig.Disabled, hookName) {
			ws = append(ws, `"`+hookName+
				`" is listed under "hooksConfig", "disabled", so the gate is asked about nothing; take it out of that list`)
		}
		if r := is.Security.Redaction; r.Enabled && !slices.ContainsFunc(r.Allowed,
			func(name string) bool { return strings.EqualFold(name, "COUNTERSIGN_TOKEN") }) {
			ws = append(ws, `secrets are taken out of the hooks' environment, so every call will be blocked; list "COUNTERSIGN_TOKEN" under "security", "environmentVariableRedaction", "allowed"`) //nolint:lll // one literal
		}
	}
	return ws
}

// decode reads settings with comments as far as they have the form of v.
func decode(text []byte, v any) bool {
	doc, err := hujson.Parse(bytes.TrimPrefix(text, bom))
	if err != nil {
		return false
	}
	doc.Standardize()
	return json.Unmarshal(doc.Pack(), v, jsontext.AllowDuplicateNames(true)) == nil
}

// Others are the settings beside those of a scope that an agent reads too, and that may turn hooks off.
func Others(agent, scope string, env func(string) (string, bool), home, folder string) []string {
	var paths []string
	for _, other := range []string{User, Project, Local} {
		if path, err := Place(agent, other, env, home, folder); err == nil && other != scope {
			paths = append(paths, path)
		}
	}
	if agent == Gemini {
		path, ok := env("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
		if !ok || path == "" {
			path = filepath.Join(map[string]string{"darwin": "/Library/Application Support/GeminiCli",
				"windows": `C:\ProgramData\gemini-cli`}[runtime.GOOS], "settings.json")
			if path == "settings.json" {
				path = "/etc/gemini-cli/settings.json"
			}
		}
		paths = append(paths, path)
	}
	return paths
}

// TrustedFolders is where Gemini CLI keeps which folders are trusted.
func TrustedFolders(env func(string) (string, bool), home string) string {
	if path, ok := env("GEMINI_CLI_TRUSTED_FOLDERS_PATH"); ok && path != "" {
		return path
	}
	return filepath.Join(home, ".gemini", "trustedFolders.json")
}

// IsTrusted reports whether a folder is trusted by the text of that file: the longest entry that covers it
// decides, and without one it is not.
func IsTrusted(text []byte, folder string) bool {
	levels := map[string]string{}
	if !decode(text, &levels) {
		return false
	}
	longest, trusted := -1, false
	for path, level := range levels {
		covers := path
		if level == "TRUST_PARENT" {
			covers = filepath.Dir(path)
		}
		if rel, err := filepath.Rel(covers, folder); err == nil && filepath.IsLocal(rel) && len(path) > longest {
			longest, trusted = len(path), level == "TRUST_FOLDER" || level == "TRUST_PARENT"
		}
	}
	return trusted
}
