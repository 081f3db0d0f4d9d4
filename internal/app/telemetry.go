package app

import (
	"context"
	"encoding/json"

	"countersign/approval"
	"countersign/internal/config"
	"countersign/internal/telemetry"
)

// newTelemetry builds what sends traces and metrics, where the configuration says to whom.
func (a *App) newTelemetry(cfg *config.Config) (err error) {
	if cfg.Telemetry.OTLP == "" {
		return nil
	}
	a.telemetry, err = telemetry.New(telemetry.Options{
		Endpoint: cfg.Telemetry.OTLP, Version: a.o.Version, Logger: a.logger("telemetry"), Now: a.o.Now,
		Mask: func(s string) string { return a.live.masker().ForLogs().Line(s) },
	})
	if err == nil {
		a.metrics.registry.MustRegister(a.telemetry)
	}
	return err
}

// traceHTTP begins the span of a call, or of a batch, that came in over HTTP.
type traceHTTP = func(ctx context.Context, route, traceparent string,
	c approval.Call) (context.Context, func(error, approval.Answer))

// traceHTTP is nil where there are no spans.
func (a *App) traceHTTP() traceHTTP {
	if a.telemetry == nil {
		return nil
	}
	return a.telemetry.BeginHTTP
}

// told is what the spans of a request are read from.
func (a *App) told() telemetry.Source {
	return telemetry.Source{Request: a.toldOf, ToWall: a.store.ToWall, Metrics: a.metrics.registry}
}

// toldOf returns what spans tell of a request, as it is on record.
func (a *App) toldOf(ctx context.Context, id string) (telemetry.Request, error) {
	return approval.View(ctx, a.store, func(tx approval.Tx) (r telemetry.Request, err error) {
		h, err := tx.Head(id)
		if err != nil {
			return r, err
		}
		r = telemetry.Request{Server: h.Server, Tool: h.Tool, Risk: h.Risk, RequestedAt: h.RequestedAt,
			ConsumedAt: h.ConsumedAt}
		es, err := tx.Events(approval.EventQuery{ApprovalID: id, Type: approval.EventApprovalRequested, Limit: 1})
		if err != nil {
			return r, err
		}
		if len(es) > 0 {
			var data struct {
				Traceparent string `json:"traceparent"`
			}
			_ = json.Unmarshal(es[0].Data, &data) // none, then
			r.Traceparent = data.Traceparent
		}
		if r.Traceparent == "" { // no call made it: it may be a person's edit
			need, err := tx.NeedOf(id)
			if err != nil {
				return r, err
			}
			r.Replaces = need.Replaces
		}
		return r, nil
	})
}
