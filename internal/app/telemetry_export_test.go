package app

// HasTelemetry reports whether anything can be sent.
func (a *App) HasTelemetry() bool { return a.telemetry != nil }
