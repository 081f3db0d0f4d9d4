package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/secret"
)

// requestState is what a requestState of ours holds: whose call it continues, and how. It is encrypted, is
// good for a while, and once.
type requestState struct {
	Agent string `json:"a"`
	Call  string `json:"c"` // digest of server, method, tool and args
	Once  string `json:"o"`
	Until int64  `json:"u"` // in milliseconds, by [Gateway.stateTime]

	Approval string `json:"r,omitempty"` // the approval that let the call through
	GrantUse string `json:"g,omitempty"` // the use of a grant that did
	Note     string `json:"n,omitempty"` // what is told beside its result
	State    []byte `json:"s,omitempty"` // the server's own requestState, whose bytes JSON would not keep
	Inflight string `json:"f,omitempty"` // the call that waits for an answer
	Question string `json:"q,omitempty"`
	Runner   string `json:"w,omitempty"` // the program where it waits
	Keyboard string `json:"k,omitempty"` // the request that the keyboard was asked about
	Page     string `json:"p,omitempty"` // the request whose page the person was sent to
}

// stateTTL is how long a client may take to come back.
const stateTTL = 10 * time.Minute

// states seals the states of calls for their clients, and opens each once.
type states struct {
	keys secret.Keys
	used usedOnce
}

// stateDigest names the call that a state is bound to.
func (p *pendingCall) stateDigest() string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q %q %q %s", p.call.Server, p.method, p.call.Tool, p.call.Args.Hash())))
	return hex.EncodeToString(sum[:])
}

// sealState makes a requestState that continues p.
func (p *pendingCall) sealState(s requestState) (jsontext.Value, *mcp.Error) {
	s.Agent, s.Call = p.r.client.Agent, p.stateDigest()
	return p.r.g.states.seal(p.r.g.stateTime(), s)
}

// seal makes a requestState of s.
func (ss *states) seal(now time.Duration, s requestState) (jsontext.Value, *mcp.Error) {
	s.Once, s.Until = rand.Text(), (now + stateTTL).Milliseconds()
	plain, err := json.Marshal(s)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInternalError, "The state of the call cannot be kept.")
	}
	return mcp.Quote(base64.RawURLEncoding.EncodeToString(ss.keys.Seal(plain))), nil
}

var errState = mcp.Errorf(mcp.CodeInvalidParams,
	"Invalid params: this requestState does not belong to this call, was used before, or has expired; call again "+
		"without it.")

// openState reads a requestState that the client brought back for p, and uses it up.
func (p *pendingCall) openState(v jsontext.Value) (requestState, *mcp.Error) {
	ss := &p.r.g.states
	s, err := ss.read(v)
	if err != nil || p.r.client.Era != mcp.Modern || s.Agent != p.r.client.Agent || s.Call != p.stateDigest() ||
		p.r.g.stateTime().Milliseconds() >= s.Until || !p.r.g.useOnce(p.r.ctx, &ss.used, s.Once, stateTTL) {
		return requestState{}, errState
	}
	return s, nil
}

// read decrypts a requestState, and does not use it up.
func (ss *states) read(v jsontext.Value) (s requestState, err error) {
	b, err := base64.RawURLEncoding.DecodeString(mcp.Text(v))
	if err != nil {
		return s, err
	}
	plain, err := ss.keys.Open(b)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		return s, err
	}
	if s.Once == "" {
		return s, errors.New("gateway: a state without a number")
	}
	return s, nil
}

// usedOnce remembers what was used that is good for one use, for at least as long as it would be good.
type usedOnce struct {
	mu    sync.Mutex
	used  map[string]time.Duration // until which age of the gateway
	swept time.Duration
}

// contains reports whether it was used.
func (s *usedOnce) contains(once string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, used := s.used[once]
	return used
}

func (s *usedOnce) use(age time.Duration, once string, good time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]time.Duration{}
	}
	if age-s.swept > time.Minute {
		for k, until := range s.used {
			if age > until {
				delete(s.used, k)
			}
		}
		s.swept = age
	}
	if _, again := s.used[once]; again {
		return false
	}
	s.used[once] = age + good
	return true
}
