package gateway

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// listing is what the servers that can be reached have, for a request that asks what there is.
type listing struct {
	r        *clientRequest
	links    []*link
	catalogs []*catalog
}

// cacheable completes a result that modern clients may keep for a while.
func (s *listing) cacheable(o mcp.Object) jsontext.Value {
	if s.r.client.Era == mcp.Legacy {
		return o.Bytes()
	}
	head := mcp.Object{
		{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)},
		{Name: "_meta", Value: mcp.Object{{Name: mcp.MetaServer, Value: s.r.serverInfo(s.catalogs)}}.Bytes()},
		{Name: "ttlMs", Value: jsontext.Value("0")},
		{Name: "cacheScope", Value: mcp.Quote("private")},
	}
	return append(head, o...).Bytes()
}

// pageSize is how many elements of a merged list one answer has.
const pageSize = 500

// page cuts a list, and says where the rest begins.
func (s *listing) page(all []item) ([]item, jsontext.Value, *mcp.Error) {
	from := 0
	if v := s.r.params.Get("cursor"); v != nil {
		at, ours := strings.CutPrefix(mcp.Text(v), "at-")
		var err error
		if from, err = strconv.Atoi(at); !ours || err != nil || from < 0 || from > len(all) {
			return nil, nil, mcp.Errorf(mcp.CodeInvalidParams,
				"Invalid params: this cursor is not one of ours, or the list has changed; start again without one.")
		}
	}
	to := min(from+pageSize, len(all))
	if to == len(all) {
		return all[from:], nil, nil
	}
	return all[from:to], mcp.Quote(fmt.Sprintf("at-%d", to)), nil
}

// answer is the answer to a list request.
func (s *listing) answer(member string, all []item) (jsontext.Value, *mcp.Error) {
	items, next, err := s.page(all)
	if err != nil {
		return nil, err
	}
	array := jsontext.Value("[")
	for i, it := range items {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, it.raw...)
	}
	o := mcp.Object{{Name: member, Value: append(array, ']')}}
	if next != nil {
		o = append(o, mcp.Member{Name: "nextCursor", Value: next})
	}
	return s.cacheable(o), nil
}

// listing returns what each server has, asked anew for the first page of a list.
func (r *clientRequest) listing() (*listing, *mcp.Error) {
	r.rememberHello()
	lookup := (*link).catalog
	if r.params.Get("cursor") == nil {
		lookup = (*link).freshCatalog
	}
	links, catalogs, why := r.eachCatalog(r.ctx, lookup)
	if len(catalogs) == 0 && why != nil && r.g.o.Wrapper { // else there is at least what the gate itself offers
		return nil, r.g.unavailable(why)
	}
	return &listing{r, links, catalogs}, nil
}

func (r *clientRequest) list(member string, pick func(*catalog) []item,
	own func(*link, item) item) (jsontext.Value, *mcp.Error) {
	s, err := r.listing()
	if err != nil {
		return nil, err
	}
	return s.answer(member, s.merge(pick, own))
}

func (r *clientRequest) toolsList() (jsontext.Value, *mcp.Error) {
	s, err := r.listing()
	if err != nil {
		return nil, err
	}
	all := s.merge(func(c *catalog) []item {
		items := make([]item, len(c.tools))
		for i, t := range c.tools {
			items[i] = item{t.offered, t.raw}
			if r.client.Era == mcp.Legacy {
				items[i].raw = t.legacy
			}
		}
		return items
	}, func(_ *link, it item) item { return it })
	for _, t := range r.g.tools {
		all = append(all, item{t.Name, t.describe()})
	}
	return s.answer("tools", all)
}

// merge is one list of all servers, in the order of the configuration and then of the server.
func (s *listing) merge(pick func(*catalog) []item, own func(*link, item) item) []item {
	var all []item
	seen := map[string]bool{}
	for i, c := range s.catalogs {
		for _, it := range pick(c) {
			it = own(s.links[i], it)
			if seen[it.key] {
				s.r.g.log.Debug("two servers have a prompt or resource of one name; the first one's is offered",
					"name", it.key, "server", s.links[i].server.Name)
				continue
			}
			seen[it.key] = true
			all = append(all, it)
		}
	}
	return all
}
