package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workshop is the scratch folder and the tools that do real things in it.
type workshop struct{ root *os.Root }

// ledger is the content of ledger.json: credits in cents, by account.
type ledger map[string]int64

const (
	ledgerFile = "ledger.json"
	limitsFile = "config/limits.yaml"
	notesFile  = "notes/standup.md"
)

// limits is the content of limitsFile.
func limits(daily int) string {
	return fmt.Sprintf("# What the treasury may move by itself.\ncurrency: USD\ndaily_limit_cents: "+
		"%d\nper_transfer_cents: 30000", daily)
}

// openWorkshop lays out the folder as the agent finds it on its first day.
func openWorkshop(dir string) (*workshop, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := &workshop{root}
	for name, content := range map[string]string{
		notesFile:              "# Stand-up\n\n- invoices from Acme are due\n",
		limitsFile:             limits(50_000),
		"drafts/old-report.md": "# Report (draft, March)\n",
		"drafts/numbers.csv":   "month,cents\n2026-09,120000\n2026-10,98000\n",
		"archive/README.md":    "What is no longer needed.\n",
	} {
		if err := w.write(name, content); err != nil {
			return nil, err
		}
	}
	return w, w.saveLedger(ledger{"treasury": 5_000_00, "acme": 0, "payroll": 120_00})
}

func (w *workshop) close() error { return w.root.Close() }

// run carries a call out. Paths cannot leave the folder: os.Root sees to it. A command is the agent's own
// script, runs in the folder, and only after a person has read it.
func (w *workshop) run(ctx context.Context, tool string, args map[string]any) (string, error) {
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch tool {
	case "list_files":
		return w.list()
	case "read_ledger":
		l, err := w.ledger()
		if err != nil {
			return "", err
		}
		var held []string
		for _, name := range slices.Sorted(maps.Keys(l)) {
			held = append(held, name+" holds "+money(l[name]))
		}
		return strings.Join(held, ", "), nil
	case "write_file":
		return "wrote " + text("path"), w.write(text("path"), text("content"))
	case "delete_file":
		return "deleted " + text("path"), w.root.Remove(text("path"))
	case "archive_file":
		to := filepath.Join("archive", filepath.Base(text("path")))
		return "moved " + text("path") + " to " + to, w.root.Rename(text("path"), to)
	case "transfer_credits":
		cents, err := strconv.ParseInt(fmt.Sprint(args["amount_cents"]), 10, 64)
		if err != nil {
			return "", fmt.Errorf("amount_cents: %w", err)
		}
		return w.transfer(text("from"), text("to"), cents)
	case "refund":
		cents, err := strconv.ParseInt(fmt.Sprint(args["amount_cents"]), 10, 64)
		if err != nil {
			return "", fmt.Errorf("amount_cents: %w", err)
		}
		return w.transfer("treasury", "customers", cents)
	case "append_note":
		b, err := w.root.ReadFile(notesFile)
		if err != nil {
			return "", err
		}
		return "noted: " + text("text"), w.write(notesFile, string(b)+"- "+text("text")+"\n")
	case "run_command":
		env, _ := args["env"].(map[string]any)
		return w.command(ctx, text("command"), env)
	case "close_books":
		return "closed " + text("month"), w.write("archive/closed-"+text("month"), "closed\n")
	}
	return "", fmt.Errorf("there is no tool %s", tool)
}

func (w *workshop) command(ctx context.Context, line string, env map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir, c.Env = w.root.Name(), []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range env {
		c.Env = append(c.Env, fmt.Sprintf("%s=%v", name, value))
	}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return "ran " + line, nil
}

// preview shows what a call would change in a file that is there, as a unified diff; "" for all else.
func (w *workshop) preview(tool string, args map[string]any) string {
	path, _ := args["path"].(string)
	content, _ := args["content"].(string)
	content = strings.TrimSuffix(content, "\n") + "\n"
	old, err := w.root.ReadFile(path)
	if tool != "write_file" || err != nil || string(old) == content {
		return ""
	}
	return diff(path, strings.SplitAfter(string(old), "\n"), strings.SplitAfter(content, "\n"))
}

// diff is a unified diff with one hunk, from the first line that differs to the last.
func diff(path string, old, changed []string) string {
	const around = 2
	head := 0
	for head < min(len(old), len(changed)) && old[head] == changed[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(changed))-head && old[len(old)-1-tail] == changed[len(changed)-1-tail] {
		tail++
	}
	from := max(0, head-around)
	after := old[len(old)-tail : len(old)-max(0, tail-around)]
	var b strings.Builder
	lines := func(mark string, ls []string) (n int) {
		for _, l := range ls {
			if l != "" { // what SplitAfter leaves behind the last line's end
				b.WriteString(mark + strings.TrimSuffix(l, "\n") + "\n")
				n++
			}
		}
		return n
	}
	same := lines(" ", old[from:head])
	gone := lines("-", old[head:len(old)-tail])
	come := lines("+", changed[head:len(changed)-tail])
	same += lines(" ", after)
	return fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n%s", path, path, from+1, same+gone, from+1, same+come,
		b.String())
}

// write writes a file, whose last line ends as a line should.
func (w *workshop) write(name, content string) error {
	content = strings.TrimSuffix(content, "\n") + "\n"
	if err := w.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return w.root.WriteFile(name, []byte(content), 0o644)
}

func (w *workshop) list() (string, error) {
	var names []string
	for _, dir := range []string{".", "archive", "config", "drafts", "notes", "reports"} {
		f, err := w.root.Open(dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		entries, err := f.ReadDir(-1)
		f.Close()
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if !e.IsDir() {
				names = append(names, filepath.ToSlash(filepath.Join(dir, e.Name())))
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, "  "), nil
}

func (w *workshop) ledger() (ledger, error) {
	b, err := w.root.ReadFile(ledgerFile)
	if err != nil {
		return nil, err
	}
	var l ledger
	return l, json.Unmarshal(b, &l)
}

// saveLedger puts a whole new file in the old one's place, so that credits are never half moved.
func (w *workshop) saveLedger(l ledger) error {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := w.root.WriteFile(ledgerFile+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return w.root.Rename(ledgerFile+".new", ledgerFile)
}

func (w *workshop) transfer(from, to string, cents int64) (string, error) {
	l, err := w.ledger()
	if err != nil {
		return "", err
	}
	if cents <= 0 || l[from] < cents {
		return "", fmt.Errorf("%s has %s", from, money(l[from]))
	}
	l[from] -= cents
	l[to] += cents
	return fmt.Sprintf("moved %s from %s to %s; treasury now holds %s", money(cents), from, to, money(l["treasury"])),
		w.saveLedger(l)
}

func money(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
