package downstream

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// versionOfBatches is the one version of the protocol in which several messages may come as an array.
const versionOfBatches = "2025-03-26"

// maxBatch is how many messages a batch may have.
const maxBatch = 32

// batched is one message of a batch.
type batched struct {
	m    mcp.Message
	meta requestMeta
	bad  *mcp.Error   // it cannot be taken
	over func() error // refuses it: the agent is over a budget; nil: it is not
	// answer is what it is answered, nil for nothing.
	answer jsontext.Value
}

// batch serves a body that is an array, for a session of the version that has them. Each message is charged, judged and
// answered as if it had come by itself; requests are worked on at once, and their answers are one array. Nothing is
// sent to the client before it, and the client is asked for nothing. Where the array as a whole is refused, nothing of
// it ran.
func (h *HTTP) batch(x *httpStream, r *http.Request) {
	body := x.body
	_, notTaken := mcp.Parse(body)
	id, version := r.Header.Get(mcp.HeaderSession), r.Header.Get(mcp.HeaderVersion)
	if id == "" || version != "" && version != versionOfBatches {
		refuse(x.w, http.StatusBadRequest, nil, notTaken)
		return
	}
	if owner := h.ownerOfSession(r); owner != "" && h.passOn(x, r, owner, nil) {
		return
	}
	c := h.lookup(x.w, id, x.caller)
	if c == nil {
		return
	}
	if c.version != versionOfBatches {
		refuse(x.w, http.StatusBadRequest, nil, notTaken)
		return
	}
	release, err := h.turn(r.Context(), x.caller.Agent, len(body))
	if err != nil {
		refuseOver(x.w, err)
		return
	}
	all, bad := readBatch(body)
	release()
	if bad != nil {
		refuse(x.w, http.StatusBadRequest, nil, bad)
		return
	}
	all[0].over = x.overBudget
	for i := range all[1:] {
		all[1+i].over = h.charge(x.caller.Agent, 0)
	}
	x.startKeepAlive(r)
	var running sync.WaitGroup
	for i := range all {
		if k := &all[i]; k.bad == nil && k.m.IsRequest() && !k.overBudget() {
			running.Go(func() { k.answer = h.member(x, r, c, k).Append(nil) })
		} else {
			h.take(r, c, k)
		}
	}
	running.Wait()
	x.finishBatch(all)
}

// readBatch reads the messages of a batch, or returns why none of them is taken.
func readBatch(body []byte) ([]batched, *mcp.Error) {
	members, bad := mcp.ReadArray(body)
	switch {
	case bad != nil:
		return nil, mcp.Errorf(mcp.CodeParseError, "Parse error: the batch is refused: %s.", bad.Reason)
	case len(members) == 0 || len(members) > maxBatch:
		return nil, mcp.Errorf(mcp.CodeInvalidRequest,
			"Invalid request: the batch has %d messages; it may have 1 to %d. Nothing was run.", len(members), maxBatch)
	}
	all, ids := make([]batched, len(members)), []string(nil)
	for i, raw := range members {
		k := &all[i]
		k.m, k.meta, _, k.bad = readMessage(raw)
		switch {
		case k.m.Method == methodInitialize:
			return nil, mcp.Errorf(mcp.CodeInvalidRequest,
				"Invalid request: initialize must not be part of a batch. Nothing was run.")
		case k.bad == nil && k.meta.modern:
			k.bad = mcp.Errorf(mcp.CodeInvalidRequest,
				"The message contradicts itself: %s has no sessions, but the message names one.", mcp.VersionModern)
		}
		if k.m.IsRequest() {
			if slices.Contains(ids, string(k.m.ID)) {
				return nil, mcp.Errorf(mcp.CodeInvalidRequest,
					"Invalid request: two messages of the batch have one id. Nothing was run.")
			}
			ids = append(ids, string(k.m.ID))
		}
		if k.bad == nil && k.m.IsNotification() && k.m.Method == methodCancelled {
			giveUp(all[:i], k.m)
		}
	}
	return all, nil
}

var errGivenUp = mcp.Errorf(mcp.CodeInvalidRequest, "The same batch cancels the request. Nothing was run.")

// giveUp refuses the request before it in its batch that a notification cancels: side by side, it could come too early.
func giveUp(before []batched, cancelled mcp.Message) {
	o, err := mcp.ReadObject(cancelled.Params)
	if err != nil {
		return
	}
	id := string(o.Get("requestId"))
	for i := range before {
		if k := &before[i]; k.bad == nil && k.m.IsRequest() && string(k.m.ID) == id {
			k.bad = errGivenUp
		}
	}
}

// overBudget answers a request of an agent that is over a budget, as [HTTP.overBudget] does.
func (k *batched) overBudget() bool {
	if k.over == nil || k.m.Method == "tools/call" {
		return false
	}
	k.answer = mcp.ErrorResponse(k.m.ID, overError(k.over())).Append(nil)
	return true
}

// take takes what is no request that is to be worked on.
func (h *HTTP) take(r *http.Request, c *legacySession, k *batched) {
	switch {
	case k.bad != nil:
		var id jsontext.Value
		if k.m.IsRequest() {
			id = k.m.ID
		}
		k.answer = mcp.ErrorResponse(id, k.bad).Append(nil)
	case k.m.IsRequest(): // it is answered
	case k.m.IsResponse():
		if !c.asks.takeResponse(k.m) {
			h.log.DebugContext(r.Context(), "a response has nothing to respond to, or came too late")
		}
	case k.m.Method == methodCancelled:
		c.inflight.cancelNamed(k.m)
	case k.over != nil:
		_ = k.over() // no reader waits for its refusal
	case c.ref.acquire():
		handleNotification(r.Context(), c.ref.session, k.m, h.log)
		c.ref.release()
	}
}

// member has the session answer one request of a batch.
func (h *HTTP) member(x *httpStream, r *http.Request, c *legacySession, k *batched) mcp.Message {
	if !c.ref.acquire() {
		return mcp.ErrorResponse(k.m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "The session has ended."))
	}
	defer h.touch(c)
	defer c.ref.release()
	own := &httpStream{h: h, w: nowhere{}, caller: x.caller, accept: acceptedTypes{json: true}, overBudget: k.over,
		params: k.meta.params, meta: k.meta.meta}
	resp, ok := h.run(own, r, c.ref.session, k.m, c)
	if !ok {
		return mcp.ErrorResponse(k.m.ID, errDuplicateID)
	}
	own.mu.Lock()
	own.answered = true
	own.mu.Unlock()
	return resp
}

// nowhere is what a message of a batch is answered to by itself.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// finishBatch sends the answers, where there are any.
func (x *httpStream) finishBatch(all []batched) {
	var answers [][]byte
	for i := range all {
		if all[i].answer != nil {
			answers = append(answers, all[i].answer)
		}
	}
	if x.keepAliveTimer != nil {
		x.keepAliveTimer.Stop()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	if len(answers) == 0 {
		if !x.streaming {
			x.w.WriteHeader(http.StatusAccepted)
		}
		return
	}
	b := slices.Concat([]byte("["), bytes.Join(answers, []byte(",")), []byte("]"))
	if x.streaming || !x.accept.json {
		oneLine(b)
		_ = x.write(slices.Concat([]byte("event: message\ndata: "), b, []byte("\n\n")))
		return
	}
	x.writer.extend()
	x.w.Header()["Content-Type"] = contentJSON
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(b)
}
