package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// exchange is a call that was let through at its server: what is sent, what the server asks meanwhile, and what its
// result is for the client.
type exchange struct {
	r    *clientRequest // for whom, and for how long: longer than the client's own request, where the call outlives it
	p    *pendingCall
	conn upstream.Conn // the next one, where the call provably did not leave over the first
	ask  askFunc       // nil: nobody can be asked
}

// askFunc answers what a legacy server asks while it works on a request, or a modern one as input_required.
type askFunc func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error)

// maxRounds is how often a modern server may require input for one call of a legacy client.
const maxRounds = 10

// run sends the request, and returns what the client is answered. What came of an approved call is on record then.
func (x *exchange) run() (jsontext.Value, *mcp.Error) {
	result, err := x.converse()
	return withNote(result, x.p.answer.Note), err
}

// withNote puts a text before the content of a tool's result, the only addition that is made to one: other arguments
// ran than the model sent. What is no complete result of a tool stays as it is.
func withNote(result jsontext.Value, note string) jsontext.Value {
	if note == "" || result == nil {
		return result
	}
	o, err := mcp.ReadObject(result)
	if err != nil || o.Text("resultType") == mcp.ResultInputRequired {
		return result
	}
	blocks := []jsontext.Value(nil)
	if content := o.Get("content"); content != nil {
		if blocks, err = mcp.ReadArray(content); err != nil {
			return result
		}
	}
	noted := append(jsontext.Value("["), mcp.Object{{Name: "type", Value: jsontext.Value(`"text"`)},
		{Name: "text", Value: mcp.Quote(note)}}.Bytes()...)
	for _, b := range blocks {
		noted = append(append(noted, ','), b...)
	}
	return o.With("content", append(noted, ']')).Bytes()
}

// converse is run without what is said of the arguments.
func (x *exchange) converse() (jsontext.Value, *mcp.Error) {
	bounded, cancel := context.WithTimeout(x.r.ctx, x.p.link.server.Timeout)
	defer cancel()
	defer x.p.reservation.Release()
	x.ask = x.recordingAsk(x.ask)
	reconnected := false
	for round := 0; ; round++ {
		resp, err := x.conn.Do(bounded, x.serverRequest())
		if err != nil && !upstream.Sent(err) && x.conn.Err() != nil && !reconnected {
			// The connection had ended before: as nothing was sent, it goes over the next one.
			if next, ok := x.sendAgain(bounded); ok {
				x.conn, reconnected = next, true
				continue
			}
		}
		if err != nil {
			return x.noAnswer(err)
		}
		if resp.Err != nil {
			x.p.report(x.r.ctx, approval.RunFailed)
			if x.p.link.server.MaskResults {
				return nil, maskError(x.r.g.o.Masker(), mcp.ReadError(resp.Err))
			}
			return nil, mcp.ReadError(resp.Err)
		}
		era := x.conn.Hello().Era
		if era == mcp.Legacy && x.p.runID() == "" &&
			(x.r.client.Era == mcp.Legacy || !mayHaveResultType(resp.Result)) {
			return x.passResult(resp.Result) // nothing in it concerns us
		}
		result, bad := mcp.ReadObject(resp.Result)
		if bad != nil {
			return x.refuseResult("The call ran, but the answer of the MCP server %s was refused: %s.",
				x.p.link.server.Name, bad)
		}
		kind := result.Text("resultType")
		switch {
		case era == mcp.Modern && kind == mcp.ResultInputRequired:
		case kind != "" && kind != mcp.ResultComplete && (era == mcp.Modern || x.r.client.Era == mcp.Modern):
			// who is of the other era gives it no meaning
			return x.refuseResult("The MCP server %s answered with a result of the kind %q, which was not asked for."+
				mayHaveRun, x.p.link.server.Name, legible.Cut(legible.Line(kind), 64))
		default:
			x.p.report(x.r.ctx, runResult(result))
			return x.passResult(resp.Result)
		}
		x.p.begun = true
		if x.r.client.Era == mcp.Modern && !x.r.forTask { // a task's client is asked by way of the task
			return x.passInputRequired(result)
		}
		if round >= maxRounds || x.ask == nil {
			return x.refuseResult("The MCP server %s needs more input than this client can give."+mayHaveRun,
				x.p.link.server.Name)
		}
		if x.p.responses, bad = x.collectResponses(bounded, result); bad != nil {
			return x.refuseResult("The answer of the MCP server %s was refused: %s."+mayHaveRun, x.p.link.server.Name, bad)
		}
		x.p.state = result.Get("requestState")
	}
}

// serverRequest is the request as it is sent over a connection.
func (x *exchange) serverRequest() upstream.Request {
	id, era := x.conn.NewID(), x.conn.Hello().Era
	params := x.p.params
	if x.p.responses != nil && era == mcp.Modern {
		params = params.With("inputResponses", x.p.responses)
	}
	if x.p.state != nil {
		params = params.With("requestState", x.p.state)
	}
	if meta := x.serverMeta(id); len(meta) > 0 {
		params = params.With("_meta", meta.Bytes())
	}
	u := upstream.Request{ID: id, Method: x.p.method, Params: params.Bytes(), OnNotification: x.onNotification(id),
		Sender: x.r.client.Agent, Reservation: x.p.reservation}
	if x.p.tool != nil && era == mcp.Modern {
		u.Header = paramHeaders(x.p.tool, x.p.params.Get("arguments"))
		u.Header.Set(mcp.HeaderName, mcp.EncodeHeader(x.p.tool.name)) // so that it is not read from the params again
	}
	if x.ask != nil {
		u.Ask = func(ctx context.Context, m mcp.Message) mcp.Message {
			result, err := x.ask(ctx, x.p.link, m.Method, m.Params)
			if err != nil {
				return mcp.ErrorResponse(m.ID, err)
			}
			return mcp.Response(m.ID, result)
		}
	}
	return u
}

// onNotification passes on what a server sends while it works on the request.
func (x *exchange) onNotification(id jsontext.Value) func(mcp.Message) {
	l := x.p.link
	return func(m mcp.Message) {
		switch m.Method {
		case progressMethod:
			if x.r.progressToken == nil {
				return
			}
			p, err := mcp.ReadObject(m.Params)
			if err != nil || string(p.Get("progressToken")) != string(id) {
				return
			}
			p = p.With("progressToken", x.r.progressToken)
			if said := p.Get("message"); said != nil && l.server.MaskResults {
				k := masking{m: x.r.g.o.Masker()}
				if p = p.With("message", k.text(said)); k.bad != nil {
					p = p.Without("message")
				}
			}
			if x.r.progressOffset > 0 { // progress only ever grows, and holding was progress too
				for _, name := range []string{"progress", "total"} {
					if f, err := strconv.ParseFloat(string(p.Get(name)), 64); err == nil {
						p = p.With(name, formatFloat(f+x.r.progressOffset))
					}
				}
			}
			m.Params = p.Bytes()
		case logMessage:
			if l.server.MaskResults {
				var ok bool
				if m.Params, ok = maskNotification(x.r.g.o.Masker(), m.Params); !ok {
					return
				}
			}
			if l.owner == nil && x.r.client.Era == mcp.Legacy && !x.r.wantsLog(m.Params) {
				return
			}
		case toolsChanged, promptsChanged, resourcesChanged, resourceUpdated:
			l.onNotification(m)
			return
		default:
			return
		}
		_ = x.r.stream.Send(m)
	}
}

// traceFields is the metadata that is passed on as it is: where a trace goes on. Nothing else is, since neither
// policy nor a person has seen it.
var traceFields = []string{"traceparent", "tracestate", "baggage"}

// serverMeta is the metadata of the request as the server gets it. What the client's era gave a meaning is
// said in the server's.
func (x *exchange) serverMeta(id jsontext.Value) mcp.Object {
	var meta mcp.Object
	for _, name := range traceFields {
		if v := x.r.meta.Get(name); len(v) > 0 && v.Kind() == '"' {
			meta = append(meta, mcp.Member{Name: name, Value: v})
		}
	}
	if x.r.progressToken != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaProgress, Value: id})
	}
	if x.conn.Hello().Era == mcp.Legacy {
		return meta
	}
	caps, info := x.r.declared.capabilities, x.r.declared.info
	if x.ask == nil || caps == nil {
		caps = jsontext.Value("{}")
	}
	if info == nil {
		info = x.r.g.implementation()
	}
	meta = append(meta, mcp.Member{Name: mcp.MetaVersion, Value: mcp.Quote(mcp.VersionModern)},
		mcp.Member{Name: mcp.MetaCapabilities, Value: caps}, mcp.Member{Name: mcp.MetaClient, Value: info})
	level := x.r.meta.Get(mcp.MetaLogLevel)
	if severity(mcp.Text(level)) < 0 {
		level = nil
	}
	if x.r.client.Era == mcp.Legacy {
		x.r.session.mu.Lock()
		if x.r.level != "" {
			level = mcp.Quote(x.r.level)
		}
		x.r.session.mu.Unlock()
	}
	if level != nil {
		meta = append(meta, mcp.Member{Name: mcp.MetaLogLevel, Value: level})
	}
	return meta
}

// mayHaveRun ends what is said of a call that was sent and whose end is not known.
const mayHaveRun = " The call may have run; find out before you call it again."

// refuseResult answers for a server whose result is not passed on: what came of the call is not known then.
func (x *exchange) refuseResult(format string, values ...any) (jsontext.Value, *mcp.Error) {
	x.p.report(x.r.ctx, approval.RunUnknown)
	return x.r.failure(fmt.Sprintf(format, values...), mcp.CodeInternalError)
}

// runResult is what a complete result says came of its call.
func runResult(result mcp.Object) approval.RunResult {
	if string(result.Get("isError")) == "true" {
		return approval.RunFailed
	}
	return approval.RunSucceeded
}

// mayHaveResultType reports whether a result may say of which kind it is: clients of the modern era go by that.
func mayHaveResultType(result jsontext.Value) bool {
	return bytes.Contains(result, []byte("resultType")) || bytes.Contains(result, []byte(`\u`))
}

// passResult is what a client is given of a complete result. One whose secrets are to be masked and cannot be is held
// back.
func (x *exchange) passResult(result jsontext.Value) (jsontext.Value, *mcp.Error) {
	if x.p.link.server.MaskResults {
		masked, bad := mask(x.r.g.o.Masker(), result)
		if bad != nil {
			return x.r.failure(fmt.Sprintf("The call ran, but the result of the MCP server %s is held back: it cannot be "+
				"read to mask the secrets in it (%s). Do not repeat the call; tell a person.", x.p.link.server.Name, bad),
				mcp.CodeInternalError)
		}
		result = masked
	}
	return x.adaptResult(result), nil
}

// adaptResult makes a result of one era one of the client's where that takes more.
func (x *exchange) adaptResult(result jsontext.Value) jsontext.Value {
	switch era := x.conn.Hello().Era; {
	case era == x.r.client.Era:
		return result
	case era == mcp.Modern:
		return objectInside(result)
	}
	o, err := mcp.ReadObject(result)
	if err != nil || o.Get("resultType") != nil {
		return result
	}
	more := `{"resultType":"complete"`
	if x.r.method == "resources/read" && o.Get("ttlMs") == nil && o.Get("cacheScope") == nil {
		more += `,"ttlMs":0,"cacheScope":"private"`
	}
	if len(o) > 0 {
		more += ","
	}
	return append(jsontext.Value(more), bytes.TrimLeft(result, " \t\r\n")[1:]...)
}

// objectInside is a tool's result as legacy clients read it: what it returned in a structure is an object there. Other
// values are put into one, as servers that speak both eras do it, and into a text where there is none.
func objectInside(result jsontext.Value) jsontext.Value {
	o, err := mcp.ReadObject(result)
	value := o.Get("structuredContent")
	if err != nil || value == nil || value.Kind() == '{' {
		return result
	}
	o = o.With("structuredContent", mcp.Object{{Name: "result", Value: value}}.Bytes())
	if blocks, err := mcp.ReadArray(o.Get("content")); err == nil && len(blocks) > 0 {
		return o.Bytes()
	}
	return withNote(o.With("content", jsontext.Value("[]")).Bytes(), string(value))
}

// noAnswer answers for a request that the server did not answer.
func (x *exchange) noAnswer(err error) (jsontext.Value, *mcp.Error) {
	name := x.p.link.server.Name
	x.r.g.log.WarnContext(x.r.ctx, "an MCP server did not answer", "server", name, "method", x.p.method,
		"tool", x.p.call.Tool, "sent", upstream.Sent(err), "error", err)
	if !upstream.Sent(err) {
		return x.p.notRun(x.r.ctx, err)
	}
	x.p.report(x.r.ctx, approval.RunUnknown)
	why := x.r.g.errorText(err)
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("it did not answer within %s", x.p.link.server.Timeout)
	}
	return x.r.failure(fmt.Sprintf("The outcome is unknown: the call was sent to the MCP server %s and no answer came "+
		"(%s). It may have run; find out before you call it again.", name, why), mcp.CodeUnknown)
}

// collectResponses asks a legacy client for what a modern server requires, and returns the inputResponses.
func (x *exchange) collectResponses(ctx context.Context, result mcp.Object) (jsontext.Value, *mcp.ObjectError) {
	wanted, bad := result.Object("inputRequests")
	if bad != nil {
		return nil, bad
	}
	var responses mcp.Object
	for _, w := range wanted {
		q, bad := mcp.ReadObject(w.Value)
		if bad != nil {
			return nil, bad
		}
		answer, err := x.ask(ctx, x.p.link, q.Text("method"), objectOrEmpty(q.Get("params")))
		if err != nil {
			if answer, err = decline(q.Text("method")); err != nil {
				continue // it is not in the answers: the server learns that nobody gave it
			}
		}
		responses = append(responses, mcp.Member{Name: w.Name, Value: answer})
	}
	if responses == nil {
		return nil, nil
	}
	return responses.Bytes(), nil
}

// passInputRequired answers a modern client with what a modern server requires. The state that continues
// the call is ours: it is bound to the call that was let through.
func (x *exchange) passInputRequired(result mcp.Object) (jsontext.Value, *mcp.Error) {
	wanted, bad := result.Object("inputRequests")
	for _, w := range wanted {
		q, wrong := mcp.ReadObject(w.Value)
		if bad = wrong; bad != nil {
			break
		}
		if !x.r.declares(q.Text("method"), objectOrEmpty(q.Get("params"))) { // it asks for more than the client declared
			return x.refuseResult("The MCP server %s needs more input than this client can give."+mayHaveRun,
				x.p.link.server.Name)
		}
		if why := x.r.checkMethod(x.r.ctx, x.p.link, q.Text("method"), objectOrEmpty(q.Get("params"))); why != nil {
			x.p.report(x.r.ctx, approval.RunUnknown)
			return x.r.failure(fmt.Sprintf("The MCP server %s needs input for this call, and may not ask for it: %s"+
				mayHaveRun, x.p.link.server.Name, sentence(why.Message)), why.Code)
		}
	}
	if bad != nil {
		return x.refuseResult("The answer of the MCP server %s was refused: %s."+mayHaveRun, x.p.link.server.Name,
			bad)
	}
	s := requestState{State: result.Get("requestState")}
	switch {
	case x.p.answer.Kind == approval.AnswerApproved:
		s.Approval, s.Note = x.p.answer.Request.ID, x.p.answer.Note
	case x.p.runID() != "":
		s.GrantUse = x.p.runID()
	}
	state, err := x.p.sealState(s)
	if err != nil {
		return nil, err
	}
	return result.With("requestState", state).Bytes(), nil
}
