package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"countersign/internal/auth"
	"countersign/internal/config"
	"countersign/internal/policy"
)

// Reload reads the configuration file again and puts it in force, whole or not at all. A file that does
// not check changes nothing: the failure is logged with each problem, audited, and told to the admins.
func (a *App) Reload(ctx context.Context) error {
	return a.reloadIf(ctx, func([]byte, error) bool { return true })
}

// reloadIf is [App.Reload] if changed says so of what was read. The file is read under the lock, so that what was read
// last is what is in force.
func (a *App) reloadIf(ctx context.Context, changed func(content []byte, err error) bool) (err error) {
	report := false
	defer func() { // the first defer, so that the lock is free by then
		if report && a.o.Reloaded != nil {
			a.o.Reloaded(err)
		}
	}()
	a.reloading.Lock()
	defer a.reloading.Unlock()
	old := a.live.Load()
	if old.cfg.Path == "" {
		report = true
		err := errors.New("this configuration did not come from a file and cannot be read again")
		a.log.ErrorContext(ctx, "the configuration was NOT reloaded; the running one stays in force", "error", err)
		return err
	}
	content, err := old.cfg.Read()
	if report = changed(content, err); !report {
		return nil
	}
	return a.reload(ctx, old, content, err)
}

// reload puts a content of the file in force, unless err says why it could not be read.
func (a *App) reload(ctx context.Context, old *live, content []byte, err error) error {
	for _, c := range a.certificates {
		c.Refresh()
	}
	var cfg *config.Config
	var problems []config.Problem
	if err == nil {
		cfg, problems, err = old.cfg.Reload(content, a.o.Env)
	}
	for _, p := range problems {
		if p.Warning { // the others are the error
			a.log.WarnContext(ctx, "a problem in the configuration", "problem", p.String())
		}
	}
	if err != nil {
		if a.o.EnvTrouble != nil {
			if trouble := a.o.EnvTrouble(); trouble != nil {
				err = &envError{trouble, err}
			}
		}
		return a.reloadFailed(ctx, content, err)
	}
	next, err := a.newLive(cfg, old)
	if err != nil {
		return a.reloadFailed(ctx, content, err)
	}
	loosened := policy.Loosenings(old.cfg.Policy, cfg.Policy)
	if err := a.gate.SetPolicy(ctx, cfg.Policy, loosened); err != nil {
		return a.reloadFailed(ctx, content, err)
	}
	a.gate.SetMasker(next.maker.Masker)
	a.live.Store(next) // first: who callers without a token are stands there, and is looked at next
	a.directory.Replace(cfg.Agents(), cfg.People())
	a.openID.Configure(cfg.SignIn.OpenID, cfg.OpenIDPeople())
	a.budgets.Replace(cfg.Budgets(auth.LocalAgent))
	a.recheck()
	a.cancelRemoved(ctx)
	a.requeue(ctx)
	a.endSignIns(ctx)
	a.sender.Reload(next.maker, next.channels...)
	old.close(next)
	a.reconfigured()
	a.recheckNeeds(ctx)
	a.unread.Store(nil)
	a.broken = nil
	a.metrics.reloaded(nil)
	a.log.InfoContext(ctx, "the configuration was reloaded and is in force", "file", cfg.Path)
	a.tellLoosened(ctx, loosened)
	for _, s := range needRestart(old.cfg, cfg) {
		a.log.WarnContext(ctx, "this change needs a restart", "key", s)
	}
	return nil
}

// tellLoosened says what new rules let through more easily, in the log and to the admins.
func (a *App) tellLoosened(ctx context.Context, loosened []string) {
	if len(loosened) == 0 {
		return
	}
	for _, s := range loosened {
		a.log.WarnContext(ctx, "the new policy is looser", "what", s)
	}
	if err := a.chat.RulesLoosened(ctx, loosened); err != nil {
		a.log.ErrorContext(ctx, "the admins could not be told of the looser policy", "error", err)
	}
}

// recheckNeeds brings what waits to where it stands by the people and rules of now, and says of which requests nobody
// is left who could approve them.
func (a *App) recheckNeeds(ctx context.Context) {
	unmet, err := a.gate.Recheck(ctx)
	if err != nil {
		a.log.ErrorContext(ctx, "not every waiting request could be checked against the new configuration; each is "+
			"checked at its next vote and at its use", "error", err)
	}
	told := a.unmet
	a.unmet = map[string]bool{}
	for _, r := range unmet {
		if a.unmet[r.ID] = true; told[r.ID] {
			continue
		}
		a.log.WarnContext(ctx, "too few people are left to approve a request; it waits until it expires", "request", r.ID)
		if err := a.chat.NeedUnmet(ctx, r); err != nil {
			a.log.ErrorContext(ctx, "the admins could not be told of a request that nobody can approve", "request", r.ID,
				"error", err)
		}
	}
}

// recheck ends what waits, streams or has a session for somebody who is not who they were any more.
func (a *App) recheck() {
	for _, fn := range a.rechecks {
		fn()
	}
}

// cancelRemoved ends the requests of agents that are not in the configuration any more. What cannot be ended now
// cannot run either.
func (a *App) cancelRemoved(ctx context.Context) {
	n, err := a.gate.CancelRemoved(ctx)
	if err != nil {
		a.log.ErrorContext(ctx, "requests of agents that are not configured any more could not all be cancelled; they "+
			"cannot run, and the next reload tries again", "error", err)
	}
	if n > 0 {
		a.log.WarnContext(ctx, "requests of agents that are not configured any more were cancelled", "requests", n)
	}
}

// reloadFailed logs, audits and tells why a content of the file is not in force. It is nil where it could not be read.
func (a *App) reloadFailed(ctx context.Context, content []byte, why error) error {
	brief := briefly(why)
	a.unread.Store(&brief)
	a.metrics.reloaded(why)
	a.log.ErrorContext(ctx, "the configuration was NOT reloaded; the running one stays in force", "error", why)
	if err := a.gate.PolicyReloadFailed(ctx, why.Error()); err != nil {
		a.log.ErrorContext(ctx, "the failed reload could not be put on record", "error", err)
	}
	a.tellBroken(ctx, content, brief)
	return fmt.Errorf("reload: %w", why)
}

// tellBroken tells the admins of a configuration that cannot be used, once for the same content.
func (a *App) tellBroken(ctx context.Context, content []byte, why string) {
	if content == nil {
		content = []byte(why)
	}
	sum := sha256.Sum256(content)
	if a.broken != nil && *a.broken == sum {
		return
	}
	if err := a.chat.ReloadFailed(ctx, why); err != nil {
		a.log.ErrorContext(ctx, "the admins could not be told of the failed reload", "error", err)
		return
	}
	a.broken = &sum
}

// envError is what is wrong with a configuration whose variables' file cannot be read.
type envError struct{ trouble, err error }

func (e *envError) Error() string   { return e.trouble.Error() + "; " + e.err.Error() }
func (e *envError) Unwrap() []error { return []error{e.trouble, e.err} }

// briefly says in one line why a configuration could not be used.
func briefly(why error) string {
	if e, ok := errors.AsType[*envError](why); ok {
		return e.trouble.Error() + "; " + briefly(e.err)
	}
	invalid, ok := errors.AsType[*config.InvalidError](why)
	if !ok {
		return why.Error()
	}
	said := invalid.Problems[0].String()
	if n := len(invalid.Problems) - 1; n > 0 {
		said += fmt.Sprintf(", and %d more", n)
	}
	return said
}

// needRestart names the keys that changed and are only read at start-up.
func needRestart(old, cfg *config.Config) []string {
	var keys []string
	for _, k := range []struct {
		name    string
		changed bool
	}{
		{"listen", old.Listen != cfg.Listen},
		{"webhook_listen", old.WebhookListen != cfg.WebhookListen},
		{"pages_listen", old.PagesListen != cfg.PagesListen},
		{"debug_listen", old.DebugListen != cfg.DebugListen},
		{"pages_tls", !reflect.DeepEqual(old.PagesTLS, cfg.PagesTLS)},
		{"tls", !reflect.DeepEqual(old.TLS, cfg.TLS)},
		{"webhook_tls", !reflect.DeepEqual(old.WebhookTLS, cfg.WebhookTLS)},
		{"socket", old.Socket != cfg.Socket},
		{"store", old.Store != cfg.Store},
		{"mcp", !reflect.DeepEqual(old.MCP, cfg.MCP)},
		{"heartbeat", fmt.Sprint(old.Heartbeat()) != fmt.Sprint(cfg.Heartbeat())},
		{"limits.connections", old.Connections() != cfg.Connections()},
		{"notifications", old.Notifications != cfg.Notifications},
	} {
		if k.changed {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// lookEvery is how often the configuration file is looked at. It is read when two looks have found it the same:
// editors write in steps.
const lookEvery = 250 * time.Millisecond

// watch reloads when the file's content is another than was seen, at first the one that the program was started on.
// It looks at the file itself: its folder may hold what never rests, such as the database, and not every file system
// says what changes in it. Editors and orchestrators may put a new file in the old one's place.
func (a *App) watch(ctx context.Context) {
	path, seen := a.o.Config.Path, a.o.Config.Sum
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	var last, read os.FileInfo // at the last look, and when it was read; nil: it was not there, or not read yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		info, err := os.Stat(path)
		if err != nil {
			last = nil // gone for the moment
			continue
		}
		rests := unchanged(last, info)
		if last = info; !rests || unchanged(read, info) {
			continue
		}
		_ = a.reloadIf(ctx, func(now []byte, err error) bool { // it says what goes wrong
			if err != nil {
				return false
			}
			read = info
			sum := sha256.Sum256(now)
			if sum == seen || len(bytes.TrimSpace(now)) == 0 { // half written: it will change again
				return false
			}
			seen = sum
			return true
		})
	}
}

// unchanged reports whether a file is as it was, as far as can be told without reading it.
func unchanged(was, is os.FileInfo) bool {
	return was != nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}
