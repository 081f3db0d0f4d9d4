package gateway

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval/legible"
	"countersign/internal/mcp"
)

// promptGet answers prompts/get.
func (r *clientRequest) promptGet() (jsontext.Value, *mcp.Error) {
	offered, err := r.textParam("name")
	if err != nil {
		return nil, err
	}
	l, name, err := r.findPrompt(offered)
	if err != nil {
		return nil, err
	}
	params := mcp.Object{{Name: "name", Value: mcp.Quote(name)}}
	if args := r.params.Get("arguments"); args != nil {
		params = append(params, mcp.Member{Name: "arguments", Value: args})
	}
	return r.gate(l, params, nil)
}

// findPrompt returns the server that has a prompt, and the server's name of it.
func (r *clientRequest) findPrompt(offered string) (*link, string, *mcp.Error) {
	r.rememberHello()
	links, catalogs, why := r.catalogs(r.ctx)
	for i, c := range catalogs {
		for _, it := range c.prompts {
			if links[i].server.offeredName(it.key) == offered {
				return links[i], it.key, nil
			}
		}
	}
	if why != nil {
		return nil, "", r.g.unavailable(why)
	}
	return nil, "", mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", legible.Line(legible.Cut(offered, 128)))
}

// resourceRead answers resources/read.
func (r *clientRequest) resourceRead() (jsontext.Value, *mcp.Error) {
	uri, err := r.textParam("uri")
	if err != nil {
		return nil, err
	}
	l, err := r.resourceLink(uri)
	if err != nil {
		return nil, err
	}
	return r.gate(l, mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}, nil)
}

// resourceLink returns the server that a resource is on: one that lists it, else one that has a template for
// it, else the only one that has resources.
func (r *clientRequest) resourceLink(uri string) (*link, *mcp.Error) {
	r.rememberHello()
	links, catalogs, why := r.catalogs(r.ctx)
	var able []*link
	for i, c := range catalogs {
		if !c.has("resources") {
			continue
		}
		able = append(able, links[i])
		for _, it := range c.resources {
			if it.key == uri {
				return links[i], nil
			}
		}
	}
	if len(able) == 1 {
		return able[0], nil
	}
	var best *link
	longest := 0
	for i, c := range catalogs {
		for _, it := range c.templates {
			// A template's text up to its first expression is what its resources begin with.
			begins, _, _ := strings.Cut(it.key, "{")
			if strings.HasPrefix(uri, begins) && len(begins) > longest {
				best, longest = links[i], len(begins)
			}
		}
	}
	switch {
	case best != nil:
		return best, nil
	case why != nil:
		return nil, r.g.unavailable(why)
	}
	code := mcp.CodeResourceNotFound
	if r.client.Era == mcp.Modern {
		code = mcp.CodeInvalidParams
	}
	return nil, &mcp.Error{Code: code, Message: "Resource not found",
		Data: mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}.Bytes()}
}

// complete answers completion/complete.
func (r *clientRequest) complete() (jsontext.Value, *mcp.Error) {
	ref, bad := r.params.Object("ref")
	if bad != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", bad)
	}
	var l *link
	var err *mcp.Error
	switch ref.Text("type") {
	case "ref/prompt":
		var name string
		if l, name, err = r.findPrompt(ref.Text("name")); err == nil {
			ref = ref.With("name", mcp.Quote(name))
		}
	case "ref/resource":
		l, err = r.templateLink(ref.Text("uri"))
	default:
		err = mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: ref.type must be "ref/prompt" or "ref/resource".`)
	}
	if err != nil {
		return nil, err
	}
	params := mcp.Object{{Name: "ref", Value: ref.Bytes()}}
	for _, name := range []string{"argument", "context"} {
		if v := r.params.Get(name); v != nil {
			params = append(params, mcp.Member{Name: name, Value: v})
		}
	}
	return r.gate(l, params, nil)
}

// templateLink returns the server that has a template, or a resource of that URI.
func (r *clientRequest) templateLink(template string) (*link, *mcp.Error) {
	links, catalogs, _ := r.catalogs(r.ctx)
	for i, c := range catalogs {
		for _, it := range c.templates {
			if it.key == template {
				return links[i], nil
			}
		}
	}
	return r.resourceLink(template)
}

// paramHeaders are the headers that mirror arguments, as the tool's schema asks for them.
func paramHeaders(t *tool, args jsontext.Value) http.Header {
	h := http.Header{}
	for _, p := range t.params {
		if v, ok := p.Value(args); ok {
			h.Set(p.Header, v)
		}
	}
	return h
}
