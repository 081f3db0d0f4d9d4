package rest

import (
	"context"
	"net"
	"net/http"
	"net/url"

	"countersign/approval"
)

// proof is what shows a client that it is at its gate; the document calls it Proof.
type proof struct {
	Proof string   `json:"proof" description:"In hex."`
	_     struct{} `additionalProperties:"false" description:"That the gate knows a token."`
}

// proves shows a client that it talks to a gate that knows its token, before it sends that: somebody else may have the
// port of a gate that is down. The port is part of it, so that they cannot have another gate prove it for them.
func (s *Server) proves(_ context.Context, x *exchange) error {
	nonce, port := x.query.Get("nonce"), x.query.Get("port")
	if len(nonce) < 20 || len(nonce) > 100 {
		return approval.Errorf(approval.CodeInvalidParameter, "nonce must be 20 to 100 characters, never sent before.")
	}
	if !s.isPort(x.r, port) {
		return approval.Errorf(approval.CodeInvalidParameter, "This gate is not at the port that was asked for. "+
			"Name the one that it listens on, or put the address that leads to it into public_url.")
	}
	text, ok := s.dir.TokenProof(x.query.Get("token"), nonce, port)
	if !ok {
		return errUnauthorized
	}
	return x.answer(http.StatusOK, proof{Proof: text})
}

// isPort reports whether the gate is reached at a port: the one that the request came to, or that of public_url, behind
// which another may have been put.
func (s *Server) isPort(r *http.Request, port string) bool {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, own, err := net.SplitHostPort(at.String()); err == nil && own == port {
			return true
		}
	}
	base, err := url.Parse(s.base())
	if err != nil || base.Host == "" {
		return false
	}
	if at := base.Port(); at != "" {
		return at == port
	}
	return base.Scheme == "http" && port == "80" || base.Scheme == "https" && port == "443"
}
