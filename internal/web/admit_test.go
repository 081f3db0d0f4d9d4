package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"countersign/approval"
)

// goneAfter has a session for so many looks.
type goneAfter struct{ looks *int }

func (g goneAfter) Of(*http.Request) (Session, bool, error) {
	*g.looks--
	return Session{ID: "s", Person: "hana", Since: begin}, *g.looks >= 0, nil
}

func (g goneAfter) Still(r *http.Request) (Session, bool, error) { return g.Of(r) }

func TestWhoseSessionEndsIsAdmittedNoMore(t *testing.T) {
	t.Parallel()
	looks := 1
	w := newWorld(t, func(o *Options) { o.Sessions = goneAfter{&looks} })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, pathAudit, http.NoBody)
	x := &exchange{ResponseWriter: httptest.NewRecorder(), s: w.pages, r: r}
	if err := x.admit(admins); err != nil {
		t.Fatal(err)
	}
	if err := x.admitStill(admins); approval.CodeOf(err) != approval.CodeUnauthorized || x.viewer != nil {
		t.Fatalf("a stream goes on for who is signed out: %v, %v", err, x.viewer)
	}
}
