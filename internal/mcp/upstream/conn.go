package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// maxMessage is the longest message taken from a server, in bytes.
const maxMessage = 32 << 20

var (
	errClosed  = errors.New("the connection is closed")
	errTooLong = fmt.Errorf("the server sent a message of more than %d MiB", maxMessage>>20)
)

// notSent is the error of a request that did not leave.
func notSent(err error) error { return &Error{Err: err} }

// maybeSent is the error of one that may have arrived.
func maybeSent(err error) error { return &Error{Sent: true, Err: err} }

// connBase is what both kinds of connection share: who it is for, what the server said, and how it ends.
type connBase struct {
	cfg      Config
	peer     Peer
	log      *slog.Logger
	hello    atomic.Pointer[Hello]
	ids      atomic.Int64
	done     chan struct{}
	failOnce sync.Once
	err      error // why it ended; read after done

	serverRequests struct {
		sync.Mutex
		cancel map[string]context.CancelFunc // of the server's requests being answered, by id
	}
	group sync.WaitGroup // goroutines that Close waits for
}

func (b *connBase) init(cfg Config, peer Peer) {
	b.cfg, b.peer, b.log, b.done = cfg, peer, cfg.Logger, make(chan struct{})
	b.hello.Store(new(Hello))
	b.serverRequests.cancel = map[string]context.CancelFunc{}
}

func (b *connBase) Hello() Hello          { return *b.hello.Load() }
func (b *connBase) NewID() jsontext.Value { return mcp.Number(b.ids.Add(1)) }

// Reserve keeps nothing: a request over HTTP waits for no other one's.
func (b *connBase) Reserve(string, int) (*Reservation, error) { return nil, nil }

func (b *connBase) Done() <-chan struct{} { return b.done }

func (b *connBase) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

func (b *connBase) fail(err error) {
	b.failOnce.Do(func() { b.err = err; close(b.done) })
}

// notifyPeer hands the peer what belongs to no request.
func (b *connBase) notifyPeer(m mcp.Message) {
	if b.peer.Notification != nil {
		b.peer.Notification(m)
	}
}

// answerServer has a server's request answered: reply is called once, perhaps later and from a goroutine of its
// own, and not at all if the server takes its request back.
func (b *connBase) answerServer(ctx context.Context, m mcp.Message, ask func(context.Context, mcp.Message) mcp.Message,
	reply func(mcp.Message)) {
	switch {
	case m.Method == "ping":
		reply(mcp.Response(m.ID, jsontext.Value("{}")))
		return
	case ask == nil || b.hello.Load().Era == mcp.Modern:
		reply(mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s.", m.Method)))
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := string(m.ID)
	b.serverRequests.Lock()
	if b.serverRequests.cancel[id] != nil {
		b.serverRequests.Unlock()
		cancel(nil)
		reply(mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeInvalidRequest,
			"An earlier request with this id is not answered yet.")))
		return
	}
	b.serverRequests.cancel[id] = func() { cancel(errServerCancelled) }
	b.serverRequests.Unlock()
	b.group.Go(func() {
		a := ask(ctx, m)
		b.serverRequests.Lock()
		delete(b.serverRequests.cancel, id)
		b.serverRequests.Unlock()
		takenBack := context.Cause(ctx) == errServerCancelled
		cancel(nil)
		if takenBack {
			return
		}
		if a = (mcp.Message{ID: m.ID, Result: a.Result, Err: a.Err}); (a.Result == nil) == (a.Err == nil) {
			a = mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeInternalError, "There is no answer."))
		}
		reply(a)
	})
}

var errServerCancelled = errors.New("the server took its request back")

// serverCancelled ends the answering that a notifications/cancelled names.
func (b *connBase) serverCancelled(params jsontext.Value) {
	o, err := mcp.ReadObject(params)
	if err != nil {
		return
	}
	b.serverRequests.Lock()
	cancel := b.serverRequests.cancel[string(o.Get("requestId"))]
	b.serverRequests.Unlock()
	if cancel != nil {
		cancel()
	}
}

func cancelledNotification(id jsontext.Value, why error) mcp.Message {
	reason := "The client does not wait any more."
	if errors.Is(why, context.DeadlineExceeded) {
		reason = "The time for an answer is over."
	}
	return mcp.Notification("notifications/cancelled", mcp.Object{
		{Name: "requestId", Value: id}, {Name: "reason", Value: mcp.Quote(reason)},
	}.Bytes())
}

// discoverRequest and initializeRequest are the two ways to say hello.
func (b *connBase) discoverRequest() Request {
	return Request{ID: b.NewID(), Method: "server/discover", Params: mcp.Object{{Name: "_meta", Value: mcp.Object{
		{Name: mcp.MetaVersion, Value: mcp.Quote(mcp.VersionModern)},
		{Name: mcp.MetaCapabilities, Value: jsontext.Value("{}")},
		{Name: mcp.MetaClient, Value: b.cfg.Client},
	}.Bytes()}}.Bytes()}
}

func (b *connBase) initializeRequest() Request {
	return Request{ID: b.NewID(), Method: "initialize", Params: mcp.Object{
		{Name: "protocolVersion", Value: mcp.Quote(mcp.VersionLegacy)},
		{Name: "capabilities", Value: b.cfg.Capabilities},
		{Name: "clientInfo", Value: b.cfg.Client},
	}.Bytes()}
}

// parseDiscover reports false for every answer but that of a server that speaks the modern version.
func parseDiscover(m mcp.Message) (Hello, bool) {
	o, err := mcp.ReadObject(m.Result)
	if m.Result == nil || err != nil {
		return Hello{}, false
	}
	versions, err := mcp.ReadArray(o.Get("supportedVersions"))
	if err != nil || !slices.ContainsFunc(versions,
		func(v jsontext.Value) bool { return mcp.Text(v) == mcp.VersionModern }) {
		return Hello{}, false
	}
	h := Hello{Era: mcp.Modern, Version: mcp.VersionModern, Instructions: o.Text("instructions")}
	if meta, err := o.Object("_meta"); err == nil {
		h.Server = objectOrNil(meta.Get(mcp.MetaServer))
	}
	h.Capabilities = capabilitiesOf(o)
	return h, true
}

func parseInitialize(m mcp.Message) (Hello, error) {
	if m.Err != nil {
		return Hello{}, fmt.Errorf("the server refused initialize: %w", mcp.ReadError(m.Err))
	}
	o, err := mcp.ReadObject(m.Result)
	if err != nil {
		return Hello{}, fmt.Errorf("the server's answer to initialize cannot be used: %w", err)
	}
	h := Hello{Era: mcp.Legacy, Version: o.Text("protocolVersion"), Instructions: o.Text("instructions"),
		Server: objectOrNil(o.Get("serverInfo")), Capabilities: capabilitiesOf(o)}
	if !slices.Contains(mcp.LegacyVersions, h.Version) {
		return Hello{}, fmt.Errorf("the server speaks version %.32q of the protocol, which Countersign does not support",
			h.Version)
	}
	return h, nil
}

// capabilitiesOf is what a server says that it can do. One that says nothing of it is asked for its tools.
func capabilitiesOf(o mcp.Object) jsontext.Value {
	if v := objectOrNil(o.Get("capabilities")); v != nil {
		return v
	}
	return jsontext.Value(`{"tools":{}}`)
}

func objectOrNil(v jsontext.Value) jsontext.Value {
	if v == nil || v.Kind() != '{' {
		return nil
	}
	return v
}

// readLine returns the next line without its end; it lives until the next read. What came before an error
// is returned with it.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(long) > limit {
				return nil, errTooLong
			}
			line, err = r.ReadSlice('\n')
			if cap(long)-len(long) < len(line) { // twice as much: append leaves five times the line behind, and not two
				long = append(make([]byte, 0, 2*cap(long)), long...)
			}
			long = append(long, line...)
		}
		line = long
	}
	if len(line) > limit {
		return nil, errTooLong
	}
	return bytes.TrimRight(line, "\r\n"), err
}
