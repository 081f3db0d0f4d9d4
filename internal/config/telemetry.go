package config

import (
	"net/url"
	"strings"
)

// Telemetry says where traces and metrics are sent.
type Telemetry struct {
	// OTLP is the address of an OpenTelemetry collector, as OTEL_EXPORTER_OTLP_ENDPOINT has it; "": nothing is sent.
	OTLP string `yaml:"otlp,omitempty" json:"otlp,omitempty"`
}

// checkTelemetry reads where traces and metrics are sent. What is wrong is not repeated: it may have a password.
func checkTelemetry(c *checker) {
	const at, key = "$.telemetry", "$.telemetry.otlp"
	text := c.cfg.File.Telemetry.OTLP
	if c.Bad[at] || c.Bad[key] {
		return
	}
	if text == "" {
		if c.Said[key] || c.Places[at].Line > 0 {
			c.errorf(at, "otlp is missing: the address of an OpenTelemetry collector, such as http://localhost:4318")
		}
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.errorf(key, "otlp is the address of an OpenTelemetry collector for OTLP over HTTP, such as http://localhost:4318; "+
			"the gate adds /v1/traces and /v1/metrics")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		c.errorf(key, "otlp must have no user, query or fragment; a token that the collector asks for belongs into the "+
			"variable OTEL_EXPORTER_OTLP_HEADERS")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1/traces"),
		strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1/metrics"):
		c.warnf(key, "otlp ends in what the gate adds to it: /v1/traces and /v1/metrics")
	case u.Port() == "4317":
		c.warnf(key, "4317 is the usual port of OTLP over gRPC, which the gate does not speak; over HTTP it is 4318")
	}
}
