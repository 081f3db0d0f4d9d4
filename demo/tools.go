package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// workshop is the scratch folder and the tools that do real things in it.
type workshop struct{ root *os.Root }

// ledger is the content of ledger.json: credits in cents, by account.
type ledger map[string]int64

const ledgerFile = "ledger.json"

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
		"notes/standup.md":     "# Stand-up\n\n- invoices from Acme are due\n",
		"drafts/old-report.md": "# Report (draft, March)\n",
		"drafts/numbers.csv":   "month,cents\n2026-09,120000\n2026-10,98000\n",
		"archive/README.md":    "What is no longer needed.\n",
	} {
		if err := w.write(name, content); err != nil {
			return nil, err
		}
	}
	return w, w.saveLedger(ledger{"treasury": 500_00, "acme": 0, "payroll": 120_00})
}

func (w *workshop) close() error { return w.root.Close() }

// run carries a call out. Paths cannot leave the folder: os.Root sees to it.
func (w *workshop) run(tool string, args map[string]any) (string, error) {
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch tool {
	case "list_files":
		return w.list()
	case "read_ledger":
		b, err := w.root.ReadFile(ledgerFile)
		return string(b), err
	case "write_file":
		return "wrote " + text("path"), w.write(text("path"), text("content"))
	case "delete_file":
		return "deleted " + text("path"), w.root.Remove(text("path"))
	case "archive_file":
		to := filepath.Join("archive", filepath.Base(text("path")))
		return "moved " + text("path") + " to " + to, w.root.Rename(text("path"), to)
	case "transfer_credits":
		cents, _ := args["amount_cents"].(int)
		return w.transfer(text("from"), text("to"), int64(cents))
	case "close_books":
		return "closed " + text("month"), w.write("archive/closed-"+text("month"), "closed\n")
	}
	return "", fmt.Errorf("there is no tool %s", tool)
}

func (w *workshop) write(name, content string) error {
	if err := w.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return w.root.WriteFile(name, []byte(content), 0o644)
}

func (w *workshop) list() (string, error) {
	var names []string
	for _, dir := range []string{".", "notes", "drafts", "reports", "archive"} {
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
	return fmt.Sprintf("moved %s from %s to %s; treasury now holds %s", money(cents), from, to, money(l["treasury"])), w.saveLedger(l)
}

func money(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
