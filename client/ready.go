package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Readiness says whether a gate can decide calls now.
type Readiness struct {
	Status   string   `json:"status"`   // [IsReady], or why it cannot
	Problems []string `json:"problems"` // what keeps people from being reached, which may be while it is ready
}

// IsReady is the status of a gate that can decide calls.
const IsReady = "ready"

// Ready asks the gate at baseURL, as [New] takes it, whether it can decide calls. No token is needed. That it cannot is
// no error; an error is that no gate answers there.
func Ready(ctx context.Context, baseURL string, opts ...Option) (r Readiness, err error) {
	c, err := newClient(baseURL, "", opts)
	if err != nil {
		return r, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "/readyz", nil, nil, nil)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return r, c.explainUnreached(ctx, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return r, refusal(resp, b)
	}
	// A proxy that has no gate behind it answers with 503 too.
	err = json.Unmarshal(b, &r)
	if err != nil || r.Status == "" || (r.Status == IsReady) != (resp.StatusCode == http.StatusOK) {
		return Readiness{}, fmt.Errorf("client: %s answered %d, and not as a gate does", c.where, resp.StatusCode)
	}
	return r, nil
}
