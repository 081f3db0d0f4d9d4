package redact

import (
	"context"
	"log/slog"
	"sync/atomic"

	"countersign/approval/legible"
)

// LogHandler returns a handler that passes records on to next with the secrets in their texts masked, as
// [Masker.ForLogs] masks them, and what cannot be seen made visible. masker is asked for each record, so that a
// change of the configuration counts at once. An attribute's text is masked by the attribute's key too.
func LogHandler(next slog.Handler, masker func() *Masker) slog.Handler {
	return &logHandler{next, forLogs{masker, new(atomic.Pointer[[2]*Masker])}}
}

type logHandler struct {
	next   slog.Handler
	masker forLogs
}

// forLogs makes a masker one for logs, once.
type forLogs struct {
	masker func() *Masker
	made   *atomic.Pointer[[2]*Masker] // the last one, and what was made of it
}

func (f forLogs) get() *Masker {
	m := f.masker()
	if made := f.made.Load(); made != nil && made[0] == m {
		return made[1]
	}
	logs := m.ForLogs()
	f.made.Store(&[2]*Masker{m, logs})
	return logs
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	m := h.masker.get()
	safe := slog.NewRecord(r.Time, r.Level, m.logText("", r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(m.logAttr(a))
		return true
	})
	return h.next.Handle(ctx, safe)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	m := h.masker.get()
	safe := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		safe[i] = m.logAttr(a)
	}
	return &logHandler{h.next.WithAttrs(safe), h.masker}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.next.WithGroup(name), h.masker}
}

func (m *Masker) logAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(m.logText(a.Key, v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, len(v.Group()))
		for i, inner := range v.Group() {
			group[i] = m.logAttr(inner)
		}
		v = slog.GroupValue(group...)
	case slog.KindAny:
		// What is no plain value is text in the log, however it would have been encoded.
		if _, source := v.Any().(*slog.Source); v.Any() != nil && !source {
			v = slog.StringValue(m.logText(a.Key, v.String()))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// logText makes a text fit for a log.
func (m *Masker) logText(key, s string) string {
	if key != "" && s != "" && !isMark(s) && m.kindOf(key) != notSecret {
		return string(m.appendMark(nil, s))
	}
	s, _ = m.Text(s)
	return legible.Lines(s)
}
