package rest

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lists"
)

func wireGrant(g approval.Grant) client.Grant {
	w := client.Grant{
		ID: g.ID, Decision: api.Verdicts[!g.Deny], Agent: g.Agent, Scope: g.Scope, Server: g.Server, Tool: g.Tool,
		Args: g.Args, ArgsHash: g.ArgsHash, Vary: map[string]client.Vary{}, AnyArgs: g.Terms.AnyArgs, SessionID: g.Session,
		RequestID: g.RequestID, Rule: g.Rule, RiskLevel: string(g.Risk), MadeBy: g.By, Who: cmp.Or(g.Who, g.By),
		Via: string(g.Via), Reason: g.Reason, MadeAt: api.At(g.MadeAt), ExpiresAt: api.At(g.ExpiresAt),
		Uses: g.Uses, Used: g.Used, Spent: map[string]string{}, SuspendedAt: api.At(g.SuspendedAt),
		EndedAt: api.At(g.EndedAt), EndedBy: g.EndedBy, EndCode: g.EndCode,
	}
	for name, v := range g.Terms.Vary {
		w.Vary[name] = client.Vary(v)
	}
	maps.Copy(w.Spent, g.Spent)
	return w
}

type grantList struct {
	Grants []client.Grant `json:"grants" nullable:"false" description:"Newest first."`
	Next   string         `json:"next" nullable:"true" description:"The after of the next page; null at the end."`
	_      struct{}       `additionalProperties:"false"`
}

// grantUse is one call that a grant let through; the document calls it GrantUse.
type grantUse struct {
	ID           string   `json:"id" description:"The run_id of the call's answer." pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	GrantID      string   `json:"grant_id"`
	ArgsHash     string   `json:"args_hash" pattern:"^[0-9a-f]{64}$"`
	SessionID    string   `json:"session_id" nullable:"true"`
	At           string   `json:"at" format:"date-time"`
	DispatchedAt string   `json:"dispatched_at" nullable:"true" format:"date-time"`
	RunResult    string   `json:"outcome" nullable:"true" enum:"[\"succeeded\",\"failed\",\"unknown\",null]"`
	_            struct{} `additionalProperties:"false" description:"A call that a grant let through."`
}

func wireGrantUse(u approval.GrantUse) grantUse {
	return grantUse{ID: u.ID, GrantID: u.GrantID, ArgsHash: u.ArgsHash, SessionID: u.Session,
		At: approval.FormatTime(u.At), DispatchedAt: approval.FormatTime(u.DispatchedAt),
		RunResult: string(u.RunResult)}
}

// outcomeAnswer is a request or a grantUse.
type outcomeAnswer struct{ is any }

// MarshalJSONTo writes the one that it is.
func (o outcomeAnswer) MarshalJSONTo(e *jsontext.Encoder) error { return json.MarshalEncode(e, o.is) }

// JSONSchemaOneOf says what it may be.
func (outcomeAnswer) JSONSchemaOneOf() []any { return []any{client.Approval{}, grantUse{}} }

// liftAnswer says that a denial is forgotten.
type liftAnswer struct {
	ID     string   `json:"id" description:"Of the request that was denied, or of the standing denial."`
	Lifted bool     `json:"lifted"`
	_      struct{} `additionalProperties:"false" description:"The denial no longer answers calls."`
}

// grantBody asks to give a decision for longer.
type grantBody struct {
	For     string   `json:"for" nullable:"true" pattern:"^([0-9]+(\\.[0-9]+)?(h|m|s|ms))+$" description:"How long, at most 24h, such as 8h or 90m. Absent: 24h."`
	Uses    *int     `json:"uses" minimum:"1" maximum:"10000" description:"For so many calls, not counting the approved one. Absent: any number."`
	Session bool     `json:"session" nullable:"true" description:"Only for calls of the request's session."`
	_       struct{} `additionalProperties:"false" description:"Makes the decision apply for longer; give at least one of the three."`
}

// PrepareJSONSchema says that it may be null.
func (grantBody) PrepareJSONSchema(s *jsonschema.Schema) error {
	s.AddType(jsonschema.Null)
	return nil
}

// wish reads how long a decision is to be given for; nil: it is not.
func (b *grantBody) wish() (*approval.GrantWish, error) {
	if b == nil {
		return nil, nil
	}
	w := &approval.GrantWish{Session: b.Session}
	if b.For != "" {
		d, err := time.ParseDuration(b.For)
		if err != nil || d <= 0 {
			return nil, approval.Errorf(approval.CodeInvalidParameter, "grant.for must be how long, such as 8h or 90m.")
		}
		w.For = d
	}
	if b.Uses != nil {
		if w.Uses = *b.Uses; w.Uses < 1 || w.Uses > approval.MaxGrantUses {
			return nil, approval.Errorf(approval.CodeInvalidParameter, "grant.uses must be 1 to %d.", approval.MaxGrantUses)
		}
	}
	if b.For == "" && b.Uses == nil && !b.Session {
		return nil, approval.Errorf(approval.CodeInvalidParameter, "grant must have for, uses or session.")
	}
	return w, nil
}

// readMadeGrant returns the grant that a decision of the request made, nil where it made none.
func (s *Server) readMadeGrant(ctx context.Context, d *approval.Decision, r *approval.Request) (*client.Grant, error) {
	if d.Grant == nil {
		return nil, nil
	}
	gs, err := lists.ListGrants(ctx, s.gate, approval.GrantQuery{RequestID: r.ID, All: true, Limit: 1})
	if err != nil || len(gs) == 0 {
		return nil, err
	}
	if s.made != nil {
		s.untold(ctx, s.made.Granted(ctx, gs[0]))
	}
	g := wireGrant(gs[0])
	return &g, nil
}

// seesGrants reports, with an error, whether the caller may see grants: an agent its own, people who decide or
// administrate all.
func (x *exchange) seesGrants() error {
	if x.who.Kind == approval.Human && !x.who.Approver && !x.who.Admin {
		return approval.Errorf(approval.CodeNotAnApprover, "Only approvers and admins may see grants.")
	}
	return nil
}

func (s *Server) grants(ctx context.Context, x *exchange) error {
	if err := x.seesGrants(); err != nil {
		return err
	}
	f := fields{query: x.query}
	q := approval.GrantQuery{Agent: f.agent(), All: f.yes("all"), After: f.id("after")}
	limit := f.limit()
	if f.err != nil {
		return f.err
	}
	others := x.who.Kind == approval.Agent && q.Agent != "" && q.Agent != x.who.Name
	if x.who.Kind == approval.Agent {
		q.Agent = x.who.Name
	}
	return answerPage(ctx, x, limit, func(after *approval.Grant, n int) ([]approval.Grant, error) {
		if others {
			return nil, nil
		}
		if q.Limit = n; after != nil {
			q.After = after.ID
		}
		return lists.ListGrants(ctx, s.gate, q)
	}, func(rows []approval.Grant, more bool) any {
		list := grantList{Grants: api.Each(rows, wireGrant)}
		if more {
			list.Next = rows[len(rows)-1].ID
		}
		return list
	})
}

// findGrant returns the one that the path names, if the caller may see it.
func (x *exchange) findGrant(ctx context.Context) (approval.Grant, error) {
	g, err := x.gate.Grant(ctx, x.r.PathValue("id"))
	if err == nil && x.who.Kind == approval.Agent && g.Agent != x.who.Name {
		return approval.Grant{}, approval.Errorf(approval.CodeNotFound, "No such grant.")
	}
	return g, err
}

func (s *Server) grant(ctx context.Context, x *exchange) error {
	if err := x.beginTurn(ctx); err != nil {
		return err
	}
	g, err := x.findGrant(ctx)
	if err == nil {
		err = x.seesGrants()
	}
	if err == nil {
		err = x.formErr
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, wireGrant(g))
}

func (s *Server) revoke(ctx context.Context, x *exchange) error {
	if refused := cmp.Or(x.admit(people), x.formErr); refused != nil {
		if _, err := x.findGrant(ctx); err != nil {
			return err
		}
		return refused
	}
	if x.over != nil { // what lets calls through can be taken back, whatever the budget says
		release, err := s.gate.Turn(ctx, x.who.Actor)
		if err != nil {
			return err
		}
		g, err := s.gate.Grant(ctx, x.r.PathValue("id"))
		release()
		if err != nil || g.Deny || !g.EndedAt.IsZero() || g.By != x.who.Name && !x.who.Admin {
			return x.over()
		}
	}
	g, err := s.gate.Revoke(ctx, x.who.Actor, x.via(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, wireGrant(g))
}

func (s *Server) lift(ctx context.Context, x *exchange) error {
	if refused := cmp.Or(x.admit(people), x.formErr); refused != nil {
		return x.hideRequest(ctx, refused)
	}
	id := x.r.PathValue("id")
	if err := s.gate.Lift(ctx, x.who.Actor, x.via(), id); err != nil {
		return err
	}
	return x.answer(http.StatusOK, liftAnswer{ID: id, Lifted: true})
}
