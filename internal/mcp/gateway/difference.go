package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/filediff"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// maxReadResult is how long the answer of a tool that reads a file may be, in bytes: there may be escapes in it, and
// the text once more as structured content.
const maxReadResult = 4 * filediff.MaxFile

// differ finds what a call would change, for those who are asked about it. Of a server that does not tell, or not as
// it should, there is no difference, and people see the call as it is.
type differ struct{ p *pendingCall }

// Difference is [approval.Differ].
func (d differ) Difference(ctx context.Context, terms approval.DiffTerms) (diff, readWith string) {
	diff, err := d.find(ctx, &terms)
	if err != nil {
		d.p.r.g.log.InfoContext(ctx, "people are not shown what a call would change", "server", d.p.call.Server, "tool",
			d.p.call.Tool, "read", terms.Read, "agent", d.p.call.Agent, "why", d.p.r.g.errorText(err))
		return "", ""
	}
	return diff, terms.Read
}

// find reads the file and compares.
func (d differ) find(ctx context.Context, terms *approval.DiffTerms) (string, error) {
	path, content, reading, err := diffArgs(d.p.call.Args, terms)
	if err != nil {
		return "", err
	}
	result, err := d.read(ctx, terms.Read, reading)
	if err != nil {
		return "", err
	}
	// What is large takes its turn among what its agent has worked on.
	release, err := d.p.r.account().TurnFor(ctx, len(result)+len(content))
	if err != nil {
		return "", err
	}
	defer release()
	is, err := fileText(result)
	switch {
	case err != nil:
		return "", err
	case !filediff.IsText([]byte(is)) || !filediff.IsText([]byte(content)):
		return "", errors.New("it is not text")
	case len(is) > filediff.MaxFile || len(content) > filediff.MaxFile:
		return "", errLongFile
	}
	diff := filediff.Between(filediff.Side{Path: path, Text: []byte(is), Exists: true},
		filediff.Side{Path: path, Text: []byte(content), Exists: true})
	return filediff.Clip(diff, approval.MaxPreview), nil
}

var errLongFile = fmt.Errorf("it is longer than %d MiB", filediff.MaxFile>>20)

// diffArgs are the args of a call that a difference is made of, and those of the tool that reads. Names that can be
// taken for one another say nothing for certain.
func diffArgs(of args.Args, terms *approval.DiffTerms) (path, content string, reading args.Args, err error) {
	if of.Ambiguous() {
		return "", "", args.Args{}, errors.New("the names of the call's args can be read in several ways")
	}
	text := func(name string) string {
		vs := of.LookupAll(name)
		if len(vs) != 1 || vs[0].Kind() != '"' {
			err = fmt.Errorf("the call has no text in %q", name)
			return ""
		}
		return mcp.Text(vs[0])
	}
	path, content = text(terms.Path), text(terms.Content)
	if err != nil {
		return "", "", args.Args{}, err
	}
	var o mcp.Object
	for _, name := range slices.Sorted(maps.Keys(terms.ReadArgs)) {
		switch vs := of.LookupAll(terms.ReadArgs[name]); len(vs) {
		case 0: // it is for the tool to say whether it can do without
		case 1:
			o = append(o, mcp.Member{Name: name, Value: vs[0]})
		default:
			return "", "", args.Args{}, fmt.Errorf("the call's %q can be read in several ways", terms.ReadArgs[name])
		}
	}
	reading, err = args.Parse(o.Bytes())
	return path, content, reading, err
}

// read calls the tool that reads, as a call of the same agent that the policy must allow by itself. Its record is
// durable before a person sees what came of it.
func (d differ) read(ctx context.Context, tool string, reading args.Args) (jsontext.Value, error) {
	l, agent := d.p.link, d.p.r.client.Agent
	c, err := l.catalog(ctx)
	if err != nil {
		return nil, err
	}
	t := c.named[tool]
	if t == nil {
		return nil, errors.New("the server offers no such tool")
	}
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	params := mcp.Object{{Name: "name", Value: mcp.Quote(t.name)}, {Name: "arguments", Value: reading.Canonical()}}
	if conn.Hello().Era == mcp.Modern {
		params = append(params, mcp.Member{Name: "_meta", Value: l.gatewayMeta()})
	}
	raw := params.Bytes()
	place, err := conn.Reserve(agent, len(raw))
	if err != nil {
		return nil, err
	}
	defer place.Release()
	call := d.p.r.callOf(l)
	call.Tool, call.ToolDigest, call.ToolSeen, call.Annotations = t.name, t.digest, t.isSeenByAll(), t.annotations
	call.ListedDigest = t.listedDigest
	call.Args, call.ReadFor = reading, d.p.call.Target()
	answer, err := d.p.r.g.o.Asker.Check(ctx, call)
	switch {
	case err != nil:
		return nil, err
	case answer.Kind != approval.AnswerAllow:
		return nil, errors.New("the policy does not allow reading it")
	}
	u := upstream.Request{ID: conn.NewID(), Method: "tools/call", Params: raw, Sender: agent, Reservation: place,
		// What the server says or asks meanwhile is for no client: the client knows nothing of this call.
		OnNotification: func(mcp.Message) {}, Ask: declineServerRequest}
	if conn.Hello().Era == mcp.Modern {
		u.Header = paramHeaders(t, reading.Canonical())
		u.Header.Set(mcp.HeaderName, mcp.EncodeHeader(t.name))
	}
	resp, err := conn.Do(ctx, u)
	switch {
	case err != nil:
		return nil, err
	case resp.Err != nil:
		return nil, errors.New("the tool that reads it answered with an error") // whose words may be of the file
	case len(resp.Result) > maxReadResult:
		return nil, errLongFile
	}
	return resp.Result, nil
}

// fileText is the text of a file in the result of the tool that read it: its only text, or of one with a resource the
// resource's. What cannot be taken for one file is none.
func fileText(raw jsontext.Value) (string, error) {
	result, bad := mcp.ReadObject(raw)
	if bad != nil {
		return "", bad
	}
	failed := result.Get("isError")
	switch kind := result.Text("resultType"); {
	case failed != nil && string(failed) != "false":
		return "", errors.New("the tool that reads it failed; it may not exist")
	case result.Get("resultType") != nil && kind != mcp.ResultComplete:
		return "", errors.New("the tool that reads it needs more than it was given")
	}
	blocks, bad := mcp.ReadArray(result.Get("content"))
	if bad != nil {
		return "", bad
	}
	var texts, files []string
	for _, b := range blocks {
		o, bad := mcp.ReadObject(b)
		if bad != nil {
			return "", bad
		}
		of, into := o, &texts
		switch o.Text("type") {
		case "text":
		case "resource":
			if of, bad = o.Object("resource"); bad != nil {
				return "", bad
			}
			into = &files
		default:
			return "", errNoOneText
		}
		v := of.Get("text")
		if len(v) == 0 || v.Kind() != '"' {
			return "", errNoOneText
		}
		*into = append(*into, mcp.Text(v))
	}
	switch {
	case len(files) == 1:
		return files[0], nil
	case len(files) == 0 && len(texts) == 1:
		return texts[0], nil
	}
	return "", errNoOneText
}

var errNoOneText = errors.New("the tool that reads it did not return the text of one file")
