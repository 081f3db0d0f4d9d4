package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/chat"
	"countersign/internal/config"
	"countersign/internal/locale/phrases"
	"countersign/internal/policy"
	"countersign/internal/retention"
)

// Reload reads the configuration file again and puts it in force, whole or not at all. A file that does
// not check changes nothing: the failure is logged with each problem, audited, and told to the admins.
func (a *App) Reload(ctx context.Context) error {
	return a.reloader.reloadIf(ctx, func([]byte, error) bool { return true })
}

// reloader puts what is read again in force, in each part of the program.
type reloader struct {
	a    *App // of which a reload replaces much
	log  *slog.Logger
	gate *approval.Gate
	chat *chat.Service // tells the admins

	mu       sync.Mutex
	rechecks []func() // what a reload has looked at: whether those in hand are who they were
	// failed says why the configuration was last not reloaded; nil: it was
	failed atomic.Pointer[string]
	// behind says since when another program on the store has a newer configuration; nil: none has
	behind atomic.Pointer[time.Time]

	// What the admins were told of already. They are mu's.
	broken *[sha256.Size]byte // the content of the file that cannot be used, nil: the last could
	unmet  map[string]bool    // requests that too few people are left to approve
}

// reloadIf is [App.Reload] if changed says so of what was read. The file is read under the lock, so that what was read
// last is what is in force.
func (r *reloader) reloadIf(ctx context.Context, changed func(content []byte, err error) bool) (err error) {
	report := false
	defer func() { // the first defer, so that the lock is free by then
		if report && r.a.o.Reloaded != nil {
			r.a.o.Reloaded(err)
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.a.live.Load()
	if old.cfg.Path == "" {
		report = true
		err := errors.New("this configuration did not come from a file and cannot be read again")
		r.log.ErrorContext(ctx, "the configuration was NOT reloaded; the running one stays in force", "error", err)
		return err
	}
	content, err := old.cfg.Read()
	if report = changed(content, err); !report {
		return nil
	}
	return r.reload(ctx, old, content, err)
}

// reload puts a content of the file in force, unless err says why it could not be read.
func (r *reloader) reload(ctx context.Context, old *live, content []byte, err error) error {
	a := r.a
	for _, c := range a.listeners.certificates {
		c.Refresh()
	}
	var cfg *config.Config
	var problems []config.Problem
	if err == nil {
		cfg, problems, err = old.cfg.Reload(content, a.o.Env)
	}
	for _, p := range problems {
		if p.Warning { // the others are the error
			r.log.WarnContext(ctx, "a problem in the configuration", "problem", p.String())
		}
	}
	if err != nil {
		if a.o.EnvTrouble != nil {
			if trouble := a.o.EnvTrouble(); trouble != nil {
				err = &envError{trouble, err}
			}
		}
		return r.recordFailure(ctx, content, err)
	}
	next, err := a.newLive(cfg, old)
	if err != nil {
		return r.recordFailure(ctx, content, err)
	}
	loosened := policy.Loosenings(old.cfg.Policy, cfg.Policy)
	if err := r.gate.SetPolicy(ctx, cfg.Policy, phrases.InEnglish(loosened)); err != nil {
		return r.recordFailure(ctx, content, err)
	}
	r.gate.SetMasker(next.maker.Masker)
	a.live.Store(next) // first: who callers without a token are stands there, and is looked at next
	a.directory.Replace(cfg.Agents(), cfg.People())
	a.openID.Configure(cfg.SignIn.OpenID, cfg.OpenIDPeople())
	a.budgets.Replace(cfg.Budgets(auth.LocalAgent))
	r.recheck()
	isNew, behind := r.noteConfiguration(ctx, cfg)
	if !behind {
		r.cancelRemoved(ctx)
		r.requeue(ctx)
		a.signIns.end(ctx)
	}
	a.sender.Reload(next.maker, next.channels...)
	old.close(next)
	a.platforms.announceReload(a.receivers)
	if !behind {
		r.recheckNeeds(ctx)
	}
	r.failed.Store(nil)
	r.broken = nil
	a.metrics.countReload(nil)
	r.log.InfoContext(ctx, "the configuration was reloaded and is in force", "file", cfg.Path)
	r.logLoosened(ctx, loosened)
	if isNew { // else who had it first has told them
		r.tellLoosened(ctx, loosened)
	}
	for _, s := range restartKeys(old.cfg, cfg) {
		r.log.WarnContext(ctx, "this change needs a restart", "key", s)
	}
	return nil
}

// noteConfiguration has other programs on the store know which configuration this one has. It reports whether none of
// them had it before, and whether one has a newer one: then it must not end what that one has let begin. Where that
// cannot be found out, it is left to them.
func (r *reloader) noteConfiguration(ctx context.Context, cfg *config.Config) (isNew, behind bool) {
	isNew, err := r.a.store.configure(ctx, cfg.Shared)
	if err == nil {
		behind, err = r.a.store.isBehind(ctx)
	}
	if err != nil {
		r.log.ErrorContext(ctx, "it cannot be found out whether others have a newer configuration; what this one ends is "+
			"left as it is until the next reload", "error", err)
		return true, true
	}
	r.setBehind(behind)
	return isNew, behind
}

// setBehind notes since when others have a newer configuration.
func (r *reloader) setBehind(behind bool) {
	now := r.a.o.Now()
	switch {
	case !behind:
		r.behind.Store(nil)
	case r.behind.Load() == nil:
		r.behind.Store(&now)
	}
}

// lookBehind looks whether others have a newer configuration by now.
func (r *reloader) lookBehind(ctx context.Context) {
	behind, err := r.a.store.isBehind(ctx)
	if err == nil { // else the store says so
		r.setBehind(behind)
	}
}

// tooLongBehind is for how long others may have a newer configuration until this program is not ready any more.
const tooLongBehind = 10 * time.Minute

// requeue gives cards that wait over a budget of pushes the turn that they have with the budgets of now.
func (r *reloader) requeue(ctx context.Context) {
	if err := r.a.outbox.Requeue(ctx); err != nil {
		r.log.ErrorContext(ctx, "cards that wait over a budget of pushes keep the turn that they had", "error", err)
	}
}

// logLoosened says in the log what new rules let through more easily.
func (r *reloader) logLoosened(ctx context.Context, loosened []phrases.Said) {
	for _, s := range phrases.InEnglish(loosened) {
		r.log.WarnContext(ctx, "the new policy is looser", "what", s)
	}
}

// tellLoosened tells the admins of that, each in their language.
func (r *reloader) tellLoosened(ctx context.Context, loosened []phrases.Said) {
	if len(loosened) == 0 {
		return
	}
	if err := r.chat.RulesLoosened(ctx, loosened); err != nil {
		r.log.ErrorContext(ctx, "the admins could not be told of the looser policy", "error", err)
	}
}

// recheckNeeds brings what waits to where it stands by the people and rules of now, and says for which requests too
// few people are left who could approve them.
func (r *reloader) recheckNeeds(ctx context.Context) {
	unmet, err := r.gate.Recheck(ctx)
	if err != nil {
		r.log.ErrorContext(ctx, "not every waiting request could be checked against the new configuration; each is "+
			"checked at its next vote and at its use", "error", err)
	}
	told := r.unmet
	r.unmet = map[string]bool{}
	for _, req := range unmet {
		if r.unmet[req.ID] = true; told[req.ID] {
			continue
		}
		r.log.WarnContext(ctx, "too few people are left to approve a request; it waits until it expires", "request", req.ID)
		if err := r.chat.NeedUnmet(ctx, req); err != nil {
			r.log.ErrorContext(ctx, "the admins could not be told of a request that nobody can approve", "request", req.ID,
				"error", err)
		}
	}
}

// recheck ends what waits, streams or has a session for an agent or a person who is not who they were any more.
func (r *reloader) recheck() {
	for _, fn := range r.rechecks {
		fn()
	}
}

// cancelRemoved ends the requests of agents that are not in the configuration any more. What cannot be ended now
// cannot run either.
func (r *reloader) cancelRemoved(ctx context.Context) {
	n, err := r.gate.CancelRemoved(ctx)
	if err != nil {
		r.log.ErrorContext(ctx, "requests of agents that are not configured any more could not all be cancelled; they "+
			"cannot run, and the next reload tries again", "error", err)
	}
	if n > 0 {
		r.log.WarnContext(ctx, "requests of agents that are not configured any more were cancelled", "requests", n)
	}
}

// recordFailure logs, audits and tells why a content of the file is not in force. It is nil where it could not be read.
func (r *reloader) recordFailure(ctx context.Context, content []byte, why error) error {
	brief := summarize(why)
	r.failed.Store(&brief)
	r.a.metrics.countReload(why)
	r.log.ErrorContext(ctx, "the configuration was NOT reloaded; the running one stays in force", "error", why)
	if err := r.gate.PolicyReloadFailed(ctx, why.Error()); err != nil {
		r.log.ErrorContext(ctx, "the failed reload could not be put on record", "error", err)
	}
	r.tellBroken(ctx, content, brief)
	return fmt.Errorf("reload: %w", why)
}

// tellBroken tells the admins of a configuration that cannot be used, once for the same content.
func (r *reloader) tellBroken(ctx context.Context, content []byte, why string) {
	if content == nil {
		content = []byte(why)
	}
	sum := sha256.Sum256(content)
	if r.broken != nil && *r.broken == sum {
		return
	}
	// Others on the store read the same within a minute or so; whatever breaks it again later is told again.
	key := fmt.Sprintf("broken configuration %x", sum)
	if mine, err := r.a.store.takeOnce(ctx, key, 5*time.Minute); err == nil && !mine {
		r.broken = &sum // another program has told them
		return
	}
	if err := r.chat.ReloadFailed(ctx, why); err != nil {
		r.log.ErrorContext(ctx, "the admins could not be told of the failed reload", "error", err)
		return
	}
	r.broken = &sum
}

// envError is what is wrong with a configuration whose variables' file cannot be read.
type envError struct{ trouble, err error }

func (e *envError) Error() string   { return e.trouble.Error() + "; " + e.err.Error() }
func (e *envError) Unwrap() []error { return []error{e.trouble, e.err} }

// summarize says in one line why a configuration could not be used.
func summarize(why error) string {
	if e, ok := errors.AsType[*envError](why); ok {
		return e.trouble.Error() + "; " + summarize(e.err)
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

// restartKeys names the keys that changed and are only read at start-up.
func restartKeys(old, cfg *config.Config) []string {
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
		{"store", old.Store != cfg.Store || old.StoreURL != cfg.StoreURL},
		{"replicas", !reflect.DeepEqual(old.Replicas, cfg.Replicas)},
		{"mcp", !reflect.DeepEqual(old.MCP, cfg.MCP)},
		{"heartbeat", fmt.Sprint(old.File.Heartbeat) != fmt.Sprint(cfg.File.Heartbeat)},
		{"retention", (old.Keep == retention.Keep{}) != (cfg.Keep == retention.Keep{})}, // it has a job
		{"backup", old.Backups.IsSet() != cfg.Backups.IsSet()},                          // as well
		{"limits.connections", old.Connections() != cfg.Connections()},
		{"telemetry", old.Telemetry != cfg.Telemetry},
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
func (r *reloader) watch(ctx context.Context) {
	path, seen := r.a.o.Config.Path, r.a.o.Config.Sum
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
		rests := sameFile(last, info)
		if last = info; !rests || sameFile(read, info) {
			continue
		}
		_ = r.reloadIf(ctx, func(now []byte, err error) bool { // it says what goes wrong
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

// sameFile reports whether a file is as it was, as far as can be told without reading it.
func sameFile(was, is os.FileInfo) bool {
	return was != nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}
