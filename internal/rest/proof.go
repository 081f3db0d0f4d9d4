package rest

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"countersign/approval"
)

// proof is what shows a client that it is at its gate; the document calls it Proof.
type proof struct {
	Proof string   `json:"proof" description:"In hex."`
	_     struct{} `additionalProperties:"false" description:"That the gate knows a token."`
}

// proves shows a client that it talks to a gate that knows its token, before it sends that: another program may have
// the port of a gate that is down. The address is part of it, so that they cannot have another gate prove it for them,
// nor the same one at its other address.
func (s *Server) proves(_ context.Context, x *exchange) error {
	nonce, address := x.query.Get("nonce"), x.query.Get("address")
	if len(nonce) < 20 || len(nonce) > 100 {
		return approval.Errorf(approval.CodeInvalidParameter, "nonce must be 20 to 100 characters, never sent before.")
	}
	if !s.isAt(x.r, address) {
		return approval.Errorf(approval.CodeInvalidParameter, "This gate is not at the address that was asked for, and so "+
			"proved nothing. If that leads to it, as a port of a container that was published, name it in published in the "+
			"gate's configuration. If not, look which program has it: it passed the question on.")
	}
	text, ok := s.dir.TokenProof(x.query.Get("token"), nonce, address)
	if !ok { // a code of its own: a gate that is older than this path asks for a token here
		return approval.Errorf(codeUnknownToken, "No agent and no person of this gate has that token.")
	}
	return x.answer(http.StatusOK, proof{Proof: text})
}

// isAt reports whether a client that is connected to an address is connected to this gate: it is the one at which the
// request came, or leads there, as the configuration says.
func (s *Server) isAt(r *http.Request, address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.String() != address {
		return false
	}
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := own.(*net.TCPAddr); ok {
		own := tcp.AddrPort()
		if at == netip.AddrPortFrom(own.Addr().Unmap().WithZone(""), own.Port()) {
			return true
		}
	}
	return slices.Contains(s.published(), at)
}
