package web

import (
	"context"
	"net/http"

	"countersign/approval"
)

func (s *Server) inboxRoutes() []route {
	return []route{{method: http.MethodGet, path: "/{$}", audience: people, handle: s.inbox}}
}

// inboxData is what the inbox shows.
type inboxData struct {
	Requests []approval.Request
}

// inbox shows what waits.
func (s *Server) inbox(ctx context.Context, x *exchange) error {
	rs, err := s.Gate.Requests(ctx, approval.RequestQuery{Status: approval.Pending, Limit: 200})
	if err != nil {
		return err
	}
	return x.Page("inbox", "frame_inbox", inboxData{rs})
}
