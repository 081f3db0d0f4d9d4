package heartbeat

import "log/slog"

// cronLogger carries the cron library's own lines into ours; its info lines are about its inner life.
type cronLogger struct{ log *slog.Logger }

func (l cronLogger) Info(msg string, kv ...any) {
	l.log.Debug("cron: "+msg, kv...) //nolint:sloglint // the library's message
}

func (l cronLogger) Error(err error, msg string, kv ...any) {
	l.log.Error("cron: "+msg, append(kv, "error", err)...) //nolint:sloglint // the library's message
}
