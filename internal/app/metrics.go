package app

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/channels/outbox"
	"countersign/heartbeat"
	"countersign/internal/listener"
	"countersign/internal/mcp/upstream"
)

// metrics is what /metrics shows. It is fed by commits and by the parts themselves.
type metrics struct {
	registry   *prometheus.Registry
	events     *prometheus.CounterVec
	tries      *prometheus.CounterVec
	took       *prometheus.HistogramVec
	paused     *prometheus.GaugeVec
	webhooks   *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	mcp        *prometheus.CounterVec
	mcpTook    *prometheus.HistogramVec
	counts     meters[eventLabels, prometheus.Counter] // of events
	calls      meters[mcpCall, mcpMeters]              // of mcp and mcpTook
	channel    func(name string) channels.Channel      // that is in force
	listeners  *listenerStates
}

// meters are those of a vector that each call needs: to find one by its labels takes longer than to count.
type meters[K comparable, M any] struct {
	mu    sync.RWMutex
	known map[K]M
}

// get returns the meter for labels; find finds it the first time.
func (m *meters[K, M]) get(labels K, find func() M) M {
	m.mu.RLock()
	v, ok := m.known[labels]
	m.mu.RUnlock()
	if ok {
		return v
	}
	v = find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[K]M{}
	}
	m.known[labels] = v
	return v
}

// eventLabels are the labels of an event.
type eventLabels struct {
	what     approval.EventType
	decision string
}

// mcpCall are the labels of a request of an MCP client.
type mcpCall struct{ server, method, result string }

type mcpMeters struct {
	count prometheus.Counter
	took  prometheus.Observer
}

func newMetrics(a *App) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_" + name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		events:   counter("events_total", "Audit events committed, by type and decision.", "type", "decision"),
		tries: counter("notification_tries_total", "Attempts to send a notification, by result.", "channel",
			"kind", "result", "reason"),
		webhooks: counter("webhook_events_total", "Inbound webhook deliveries and events, by result.", "channel",
			"result"),
		heartbeats: counter("heartbeat_runs_total", "Runs of the heartbeat's entries, by result.", "entry", "result"),
		reloads:    counter("config_reloads_total", "Reloads of the configuration, by result.", "result"),
		mcp: counter("mcp_requests_total", "Requests of MCP clients that the gate decided, by result.",
			"server", "method", "result"),
		mcpTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "countersign_mcp_request_seconds",
			Help:    "How long a decided request took until it was answered, including the wait for people and for the server.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60, 300}}, []string{"server"}),
		paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "countersign_channel_paused",
			Help: "1 while a channel is paused because the platform refuses its token, else 0."}, []string{"channel"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "countersign_notification_send_seconds",
			Help: "How long a platform took to answer a send.", Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10}},
			[]string{"channel"}),
	}
	var fleet prometheus.Labels // of what is the same at all programs on the store
	if a.o.Config.IsDatabase() {
		fleet = prometheus.Labels{"fleet": a.o.Config.Store}
	}
	pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "countersign_requests_pending",
		Help: "Requests that wait for a person. -1: the store did not answer.", ConstLabels: fleet},
		func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			n, err := a.gate.PendingCount(ctx)
			if err != nil {
				return -1
			}
			return float64(n)
		})
	m.channel = func(name string) channels.Channel { return a.live.Load().channel(name) }
	ahead := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "countersign_store_clock_ahead_seconds",
		Help: "Seconds that the store's time is ahead of this machine's clock, after that clock was set back."},
		func() float64 { return a.store.Ahead().Seconds() })
	for _, k := range a.o.Config.Kinds() {
		if _, metered := k.Type.(channels.Metered); metered {
			m.registry.MustRegister(quotaGauges(k, &a.live)...)
		}
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "countersign_build_info",
		Help:        "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": a.o.Version}})
	build.Set(1)
	m.listeners = &listenerStates{a.listeners.limits, map[string]*listener.Listener{}, map[string]*listener.Certificate{}}
	m.registry.MustRegister(m.listeners, m.events, m.tries, m.took, m.paused, m.webhooks, m.heartbeats, m.reloads, m.mcp,
		m.mcpTook, &serverStates{a}, &refusals{a}, a.disk, a.growth, a.backups, pending, ahead, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// quotaGauges tell how much of the month's messages of a kind of channel is used.
func quotaGauges(k kind.Kind, live *inForce) []prometheus.Collector {
	gauge := func(name, help string, value func(q channels.Quota) float64) prometheus.Collector {
		o := prometheus.GaugeOpts{Name: "countersign_" + k.Name + "_quota_" + name, Help: k.Title + " messages " + help}
		return prometheus.NewGaugeFunc(o, func() float64 {
			if q, known := live.Load().quota(k.Name); known {
				return value(q)
			}
			return -1
		})
	}
	return []prometheus.Collector{
		gauge("used", "used this month. -1: unknown, or no limit.",
			func(q channels.Quota) float64 { return float64(q.Used) }),
		gauge("limit", "allowed this month. -1: unknown, or no limit.", func(q channels.Quota) float64 {
			if !q.Limited {
				return -1
			}
			return float64(q.Limit)
		}),
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) countCommit(c approval.Commit) {
	for i := range c.Events {
		e := &c.Events[i]
		m.counts.get(eventLabels{e.Type, e.Decision}, func() prometheus.Counter {
			return m.events.WithLabelValues(string(e.Type), e.Decision)
		}).Inc()
	}
}

// CountTry implements [outbox.Metrics].
func (m *metrics) CountTry(channel string, what approval.NotificationKind, result outbox.Result, reason string,
	took time.Duration) {
	m.tries.WithLabelValues(channel, string(what), string(result), reason).Inc()
	if c, ok := m.channel(channel).(channels.Metered); ok {
		c.Observe(what, result == outbox.ResultSent, reason)
	}
	if took > 0 {
		m.took.WithLabelValues(channel).Observe(took.Seconds())
	}
}

// SetPaused implements [outbox.Metrics].
func (m *metrics) SetPaused(channel string, paused bool) { //nolint:revive // the gauge's value, no switch
	v := 0.0
	if paused {
		v = 1
	}
	m.paused.WithLabelValues(channel).Set(v)
}

func (m *metrics) countWebhook(channel, result string) {
	m.webhooks.WithLabelValues(channel, result).Inc()
}

func (m *metrics) countBeat(r heartbeat.Run) {
	m.heartbeats.WithLabelValues(r.Entry, outcome(r.Err)).Inc()
}

func (m *metrics) countReload(err error) { m.reloads.WithLabelValues(outcome(err)).Inc() }

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// serverStates tells how each MCP server is doing.
type serverStates struct{ a *App }

var (
	serverUp = prometheus.NewDesc("countersign_mcp_server_up", "1 while an MCP server is connected, else 0.",
		[]string{"server"}, nil)
	restarts = prometheus.NewDesc("countersign_mcp_server_restarts_total", "How often an MCP server was connected again.",
		[]string{"server"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *serverStates) Describe(ch chan<- *prometheus.Desc) { ch <- serverUp; ch <- restarts }

// Collect implements [prometheus.Collector].
func (s *serverStates) Collect(ch chan<- prometheus.Metric) {
	for _, h := range s.a.gateway.Health() {
		up := 0.0
		if h.State == upstream.Up {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(serverUp, prometheus.GaugeValue, up, h.Server)
		ch <- prometheus.MustNewConstMetric(restarts, prometheus.CounterValue, float64(h.Restarts), h.Server)
	}
}

// listenerStates tells what the listeners hold. The maps are complete before the first of them is served.
type listenerStates struct {
	limits       *limits
	open         map[string]*listener.Listener
	certificates map[string]*listener.Certificate
}

var (
	connections = prometheus.NewDesc("countersign_connections", "Open connections, by listener.", []string{"listener"},
		nil)
	waitsRefused = prometheus.NewDesc("countersign_waits_refused_total",
		"Waits and streams that were refused because the connections that were left are kept for others, by listener.",
		[]string{"listener"}, nil)
	closings = prometheus.NewDesc("countersign_connections_closed_total",
		"Connections that were closed because there were too many: evicted to make room for a new one, or refused because "+
			"all were in use.", []string{"listener", "reason"}, nil)
	bodyCount = prometheus.NewDesc("countersign_request_bodies", "Request bodies being received, by sender.",
		[]string{"sender"}, nil)
	bodyBytes = prometheus.NewDesc("countersign_request_body_bytes",
		"Bytes of request bodies that are received and still being worked on, by sender.", []string{"sender"}, nil)
	expiry = prometheus.NewDesc("countersign_tls_certificate_expiry_timestamp_seconds",
		"When the certificate in use expires, by listener.", []string{"listener"}, nil)
	bodyBusy = prometheus.NewDesc("countersign_request_bodies_refused_total",
		"Request bodies that were refused because there were too many, by sender.", []string{"sender"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *listenerStates) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connections, closings, waitsRefused, bodyCount, bodyBytes, bodyBusy, expiry} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *listenerStates) Collect(ch chan<- prometheus.Metric) {
	for name, l := range s.open {
		st := l.Stats()
		ch <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(st.Open), name)
		ch <- prometheus.MustNewConstMetric(closings, prometheus.CounterValue, float64(st.Evicted), name, "evicted")
		ch <- prometheus.MustNewConstMetric(closings, prometheus.CounterValue, float64(st.Refused), name, "refused")
		ch <- prometheus.MustNewConstMetric(waitsRefused, prometheus.CounterValue, float64(st.Waits), name)
	}
	for name, c := range s.certificates {
		ch <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(c.Expires().Unix()), name)
	}
	for sender, b := range map[string]*listener.Bodies{"webhook": s.limits.strangers, "token": s.limits.known} {
		st := b.Stats()
		ch <- prometheus.MustNewConstMetric(bodyCount, prometheus.GaugeValue, float64(st.Count), sender)
		ch <- prometheus.MustNewConstMetric(bodyBytes, prometheus.GaugeValue, float64(st.Bytes), sender)
		ch <- prometheus.MustNewConstMetric(bodyBusy, prometheus.CounterValue, float64(st.Busy), sender)
	}
}
