package stdioproxy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// launcher is a program that starts another, and how that is named on its command line.
type launcher struct {
	commands []string // words that may stand before the program's name: run, exec
	values   []string // flags that take the word after them
	program  []string // flags whose word is the program
}

var (
	node = launcher{values: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file",
		"-C", "--conditions"}}
	python = launcher{values: []string{"-W", "-X"}, program: []string{"-m"}}
	npx    = launcher{commands: []string{"exec", "x", "dlx", "run"},
		values: []string{"-p", "--package", "-w", "--workspace", "--cache", "--prefix", "--registry", "-C", "--dir"}}
	uvx = launcher{commands: []string{"tool", "run", "x"}, program: []string{"-m", "--module"},
		values: []string{"--from", "--with", "--with-editable", "--with-requirements", "-p", "--python", "--directory",
			"--project",
			"--index", "--index-url", "--default-index", "--extra-index-url", "--env-file", "--cache-dir", "--extra", "--group",
			"-w", "-c", "--constraints"}}
	docker = launcher{commands: []string{"run", "exec", "container"},
		values: []string{"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-p",
			"--publish", "-u", "--user", "-w", "--workdir",
			"--entrypoint", "--platform", "--add-host", "-h", "--hostname", "-m", "--memory", "--cpus", "--gpus", "-l",
			"--label", "--label-file", "--pull", "--runtime", "--security-opt", "--cap-add", "--cap-drop",
			"--tmpfs", "--ulimit", "--dns", "--device", "--ipc", "--pid", "--userns", "--restart", "--log-driver", "--log-opt",
			"--shm-size", "--stop-signal", "--cidfile", "-a", "--attach", "--context", "-H", "--host", "--config", "-c"}}
	java = launcher{program: []string{"-jar", "-m", "--module"},
		values: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules", "--add-opens",
			"--add-exports"}}
	shell = launcher{values: []string{"-o"}}
	env   = launcher{values: []string{"-u", "--unset", "-C", "--chdir"}}

	launchers = map[string]launcher{
		"npx": npx, "npm": npx, "pnpm": npx, "pnpx": npx, "yarn": npx, "bunx": npx, "bun": npx,
		"node": node, "tsx": node, "ts-node": node,
		"deno":   {commands: []string{"run"}, values: []string{"-c", "--config", "--import-map"}},
		"python": python, "py": python, "pypy": python,
		"uvx": uvx, "uv": uvx, "pipx": {commands: []string{"run"},
			values: []string{"--spec", "--python", "--pip-args", "--index-url"}},
		"poetry": {commands: []string{"run"}, values: []string{"-C", "--directory", "-P", "--project"}},
		"docker": docker, "podman": docker, "nerdctl": docker,
		"java": java, "dotnet": {commands: []string{"run", "exec", "tool"}, program: []string{"--project"}},
		"dnx":   {values: []string{"--source", "--version"}},
		"go":    {commands: []string{"run"}, values: []string{"-C", "-tags", "-ldflags"}},
		"cargo": {commands: []string{"run"}, program: []string{"--bin", "-p", "--package"}},
		"ruby":  {values: []string{"-I", "-r"}}, "bundle": {commands: []string{"exec"}},
		"php": {values: []string{"-d", "-c"}},
		"sh":  shell, "bash": shell, "zsh": shell, "env": env, "sudo": {values: []string{"-u", "-g"}}, "cmd": {}, "time": {},
		"nice": {values: []string{"-n"}},
	}
)

var (
	nonNameChars  = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	envAssignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	versionedName = regexp.MustCompile(`^([a-z]+)[0-9.]+$`) // python3.12
	windowsFlag   = regexp.MustCompile(`^/[A-Za-z]$`)       // of Windows
)

// NameOf makes a server's name of its command: server-filesystem of
// npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /data. The name is at most 32 characters out of
// A-Z a-z 0-9 _ - and never empty.
func NameOf(command []string) string {
	name := nonNameChars.ReplaceAllString(baseName(program(command)), "-")
	name = strings.Trim(name, "-_")
	if name = strings.TrimRight(name[:min(len(name), 32)], "-_"); name == "" {
		return "server"
	}
	return name
}

// program is the word of a command line that says best what runs.
func program(command []string) string {
	if len(command) == 0 {
		return ""
	}
	name := strings.ToLower(baseName(command[0]))
	if m := versionedName.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	l, ok := launchers[name]
	if !ok {
		return command[0]
	}
	words := command[1:]
	started := false // a word that is none of the launcher's own commands has been seen
	for i := 0; i < len(words); i++ {
		word := words[i]
		flag, value, whole := strings.Cut(word, "=")
		switch {
		case word == "" || word == "--" || envAssignment.MatchString(word) || name == "cmd" && windowsFlag.MatchString(word):
		case strings.HasPrefix(word, "-") && slices.Contains(l.program, flag):
			if whole {
				return value
			}
			if i+1 < len(words) {
				return words[i+1]
			}
		case strings.HasPrefix(word, "-"):
			if !whole && slices.Contains(l.values, word) {
				i++
			}
			if (name == "sh" || name == "bash" || name == "zsh") && strings.HasSuffix(word, "c") && i+1 < len(words) {
				inner := strings.Fields(words[i+1]) // a command in a word
				if len(inner) > 1 && inner[0] == "exec" {
					inner = inner[1:]
				}
				return program(inner)
			}
		case !started && slices.Contains(l.commands, word):
		default:
			started = true
			if index := strings.Trim(word, "./\\"); genericNames[strings.ToLower(baseName(index))] &&
				strings.ContainsAny(index, `/\`) {
				return parentName(index)
			}
			if _, another := launchers[strings.ToLower(baseName(word))]; another && !strings.ContainsAny(word, `@:`) {
				return program(words[i:]) // uv run python -m x
			}
			return word
		}
	}
	return command[0]
}

// genericNames are names of files that say nothing: what they are in says more.
var genericNames = map[string]bool{"index": true, "main": true, "server": true, "cli": true, "app": true, "start": true,
	"__main__": true,
	"mcp":      true, "mcp-server": true, "server-mcp": true}

// parentName is the folder of a file with a generic name, less those that only hold what was built.
func parentName(file string) string {
	parts := strings.FieldsFunc(file, func(r rune) bool { return r == '/' || r == '\\' })
	for i := len(parts) - 2; i >= 0; i-- {
		switch strings.ToLower(parts[i]) {
		case "dist", "build", "src", "lib", "bin", "out", "target", "release", "debug", "..", ".":
			continue
		}
		return parts[i]
	}
	return file
}

// baseName is the last part of a path or the name of a package, without version and ending.
func baseName(s string) string {
	s, _, _ = strings.Cut(s, "#")
	s = strings.TrimRight(s, `/\`)
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	if at := strings.IndexAny(s, "@:=<>[~"); at > 0 {
		s = s[:at]
	}
	switch ext := strings.ToLower(path.Ext(s)); ext {
	case ".exe", ".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".pyz", ".sh", ".cmd", ".bat", ".ps1", ".jar", ".rb", ".php",
		".git", ".go", ".dll", ".csproj":
		s = s[:len(s)-len(ext)]
	}
	return s
}
