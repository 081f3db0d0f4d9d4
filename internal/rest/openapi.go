package rest

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"

	"countersign/approval"
	"countersign/client"
)

// schemaNames are the names in the document of the types whose own name is taken for something else.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[callBody]():          "Call",
	reflect.TypeFor[batchBody]():         "Batch",
	reflect.TypeFor[batchAnswer]():       "BatchAnswer",
	reflect.TypeFor[feedAnswer]():        "Feed",
	reflect.TypeFor[ackBody]():           "Ack",
	reflect.TypeFor[decideBody]():        "Decision",
	reflect.TypeFor[decideAnswer]():      "DecisionAnswer",
	reflect.TypeFor[voteAnswer]():        "VoteAnswer",
	reflect.TypeFor[refusedAnswer]():     "RefusedAnswer",
	reflect.TypeFor[decideManyBody]():    "Decisions",
	reflect.TypeFor[decideManyAnswer]():  "DecisionsAnswer",
	reflect.TypeFor[freezeBody]():        "FreezeOrder",
	reflect.TypeFor[freezeList]():        "FreezeList",
	reflect.TypeFor[delegationBody]():    "DelegationOrder",
	reflect.TypeFor[delegationList]():    "DelegationList",
	reflect.TypeFor[cancelBody]():        "Cancellation",
	reflect.TypeFor[outcomeBody]():       "Outcome",
	reflect.TypeFor[grantUse]():          "GrantUse",
	reflect.TypeFor[grantBody]():         "GrantOrder",
	reflect.TypeFor[grantList]():         "GrantList",
	reflect.TypeFor[liftAnswer]():        "LiftAnswer",
	reflect.TypeFor[outcomeAnswer]():     "OutcomeAnswer",
	reflect.TypeFor[approvalList]():      "ApprovalList",
	reflect.TypeFor[notificationList]():  "NotificationList",
	reflect.TypeFor[eventList]():         "AuditEventList",
	reflect.TypeFor[problem]():           "Problem",
	reflect.TypeFor[client.Answer]():     "CallAnswer",
	reflect.TypeFor[client.Acked]():      "AckAnswer",
	reflect.TypeFor[client.Input]():      "RestInput",
	reflect.TypeFor[client.Quota]():      "RestQuota",
	reflect.TypeFor[client.Beat]():       "RestBeat",
	reflect.TypeFor[client.BeatCounts](): "RestBeatCount",
}

// shared are the types that the client reads and the server writes, and what the document says of them.
var shared = map[reflect.Type]string{
	reflect.TypeFor[client.Annotations](): "An MCP server's hints about a tool; an absent hint was not given.",
	reflect.TypeFor[client.Answer]():      "The answer to a call.",
	reflect.TypeFor[client.Approval]():    "A stored approval request. null means: there is none, or not yet.",
	reflect.TypeFor[client.Said]():        "What a person said of an earlier request.",
	reflect.TypeFor[client.Vote]():        "One person's vote.",
	reflect.TypeFor[client.Stage]():       "So many different people out of these.",
	reflect.TypeFor[client.Input]():       "An answer that was given after the approval.",
	reflect.TypeFor[client.Use]():         "An approval that was let through.",
	reflect.TypeFor[client.Acked]():       "",
	reflect.TypeFor[client.Grant](): "A decision that answers the calls that it covers without asking a person: it " +
		"lets them through or, as a standing denial, denies them.",
	reflect.TypeFor[client.Vary]():         "How an arg may differ from the approved one.",
	reflect.TypeFor[client.Freeze]():       "A freeze: one agent, or all, may run nothing.",
	reflect.TypeFor[client.Delegation]():   "One person votes for another, for a while.",
	reflect.TypeFor[client.SignInLink]():   "It signs in whoever asked for it, once.",
	reflect.TypeFor[client.Notification](): "One push of a card to one recipient on one channel.",
	reflect.TypeFor[client.AuditEvent]():   "One line of the audit log.",
	reflect.TypeFor[client.Policy]():       "A policy that was in force.",
	reflect.TypeFor[client.Stats](): "How often people were asked. Of each kind at most 200, the most asked first; " +
		"the rest is (others).",
	reflect.TypeFor[client.Figures]():    "What became of calls that needed a person.",
	reflect.TypeFor[client.Quota]():      "",
	reflect.TypeFor[client.Beat]():       "",
	reflect.TypeFor[client.BeatCounts](): "",
}

// openapi makes the OpenAPI document out of the route table and the wire types.
func (s *Server) openapi() []byte {
	schemas := map[string]any{}
	paths := map[string]map[string]any{}
	for i := range s.routes {
		rt := &s.routes[i]
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]any{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = operation(rt, schemas)
	}
	doc := map[string]any{
		"openapi":           "3.1.0",
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"info": map[string]any{
			"title": "Countersign", "version": cmp.Or(s.version, "0"),
			"description": "An agent's call runs only after the policy or a person said yes. Refusals are problem documents " +
				"(RFC 9457) with a code to branch on, checked in the order 401, 404, 403, form, 409 and 410, 422.",
		},
		"paths": paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{"bearer": map[string]any{
				"type": "http", "scheme": "bearer", "description": "The token of an agent or a person.",
			}},
		},
		"tags": []any{
			map[string]any{"name": "agents", "description": "With an agent's token."},
			map[string]any{"name": "people", "description": "With a person's token."},
			map[string]any{"name": "admins", "description": "With the token of a person with the role admin."},
			map[string]any{"name": "everyone"},
		},
	}
	b, err := json.Marshal(doc, json.Deterministic(true), jsontext.Multiline(true), json.WithMarshalers(plainSchemas))
	if err != nil {
		panic("rest: the OpenAPI document: " + err.Error()) // it is made of constants
	}
	return b
}

// plainSchemas has schemas encode themselves, by the rules they know.
var plainSchemas = json.MarshalFunc(func(s jsonschema.Schema) ([]byte, error) { return s.MarshalJSON() })

func operation(rt *route, schemas map[string]any) map[string]any {
	d := rt.doc
	op := map[string]any{"operationId": d.id, "summary": d.summary, "tags": []string{d.tag},
		"responses": responses(rt, schemas)}
	if d.description != "" {
		op["description"] = d.description
	}
	if !rt.public {
		op["security"] = []any{map[string]any{"bearer": []string{}}}
	}
	if params := parameters(rt); params != nil {
		op["parameters"] = params
	}
	if d.body != nil {
		op["requestBody"] = map[string]any{"required": !d.bodyOptional,
			"content": content("application/json", schemaOf(d.body, schemas))}
	}
	return op
}

func parameters(rt *route) []any {
	var params []any
	if strings.Contains(rt.path, "{id}") {
		id := queryParam{"id", "", idText}
		if rt.shortIDs() {
			id = queryParam{"id", "With a person's token the last characters are enough, four or more.", anyText}
		}
		params = append(params, parameter(id, "path"))
	}
	if strings.Contains(rt.path, "{digest}") {
		digest := queryParam{"digest", "The first 8 characters are enough.", map[string]any{"type": "string",
			"pattern": `^[0-9A-Fa-f]{8,64}$`}}
		params = append(params, parameter(digest, "path"))
	}
	for _, p := range rt.doc.query {
		params = append(params, parameter(p, "query"))
	}
	header := rt.doc.header
	if !rt.public {
		header = append(slices.Clone(header), queryParam{headerCorrelation,
			"Your id for this request: at most 128 printable ASCII characters, without a colon. It is returned, logged and " +
				"kept with audit events. If it is missing or malformed, the server makes one.", anyText})
	}
	for _, p := range header {
		params = append(params, parameter(p, "header"))
	}
	return params
}

func responses(rt *route, schemas map[string]any) map[string]any {
	byStatus := map[int][]approval.Code{}
	for _, c := range rt.codes() {
		byStatus[kinds[c].status] = append(byStatus[kinds[c].status], c)
	}
	all := map[string]any{}
	for _, a := range rt.doc.answers {
		mediaType, schema := a.mediaType, any(map[string]any{"type": "string"})
		if mediaType == "" {
			mediaType, schema = "application/json", schemaOf(a.body, schemas, alwaysThere)
		}
		status := strconv.Itoa(a.status)
		if same, ok := all[status].(map[string]any); ok { // in another form
			maps.Copy(same["content"].(map[string]any), content(mediaType, schema))
			continue
		}
		all[status] = response(a.description, mediaType, schema)
	}
	base := schemaOf(problem{}, schemas, alwaysThere)
	for status, cs := range byStatus {
		slices.Sort(cs)
		cs = slices.Compact(cs)
		r := response(problemDescription(cs), "application/problem+json", map[string]any{
			"allOf": []any{base, map[string]any{"properties": map[string]any{"code": map[string]any{"enum": cs},
				"status": map[string]any{"const": status}}}},
		})
		if h := problemHeaders(status); h != nil {
			r["headers"] = h
		}
		all[strconv.Itoa(status)] = r
	}
	return all
}

func problemDescription(cs []approval.Code) string {
	titles := make([]string, len(cs))
	for i, c := range cs {
		titles[i] = fmt.Sprintf("%s (%s)", kinds[c].title, c)
	}
	return strings.Join(titles, "; ") + "."
}

func problemHeaders(status int) map[string]any {
	header := func(name, description string) map[string]any {
		return map[string]any{name: map[string]any{"description": description, "schema": anyText}}
	}
	switch status {
	case http.StatusUnauthorized:
		return header("WWW-Authenticate", "Bearer.")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return header("Retry-After", "In seconds.")
	}
	return nil
}

func parameter(p queryParam, in string) map[string]any {
	m := map[string]any{"name": p.name, "in": in, "schema": p.schema}
	if p.description != "" {
		m["description"] = p.description
	}
	if in == "path" {
		m["required"] = true
	}
	return m
}

func response(description, mediaType string, schema any) map[string]any {
	return map[string]any{
		"description": description,
		"content":     content(mediaType, schema),
	}
}

func content(mediaType string, schema any) map[string]any {
	return map[string]any{mediaType: map[string]any{"schema": schema}}
}

// alwaysThere requires every member but those that may be omitted: it is for what the server sends.
var alwaysThere = jsonschema.InterceptProp(func(p jsonschema.InterceptPropParams) error {
	if p.Processed && !strings.Contains(p.Field.Tag.Get("json"), ",omit") &&
		!slices.Contains(p.ParentSchema.Required, p.Name) {
		p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
	}
	return nil
})

// schemaOf returns a reference to the schema of v's type, and puts it, with what it refers to, into schemas.
func schemaOf(v any, schemas map[string]any, more ...func(*jsonschema.ReflectContext)) any {
	if _, ok := v.(object); ok {
		return map[string]any{"type": "object"}
	}
	var r jsonschema.Reflector
	r.AddTypeMapping(client.Time{}, time.Time{})
	r.AddTypeMapping(stdjson.RawMessage{}, object{})
	options := append([]func(*jsonschema.ReflectContext){
		jsonschema.RootRef,
		jsonschema.DefinitionsPrefix("#/components/schemas/"),
		jsonschema.CollectDefinitions(func(name string, s jsonschema.Schema) { schemas[name] = s }),
		jsonschema.InterceptDefName(func(t reflect.Type, name string) string {
			if _, ok := shared[t]; ok {
				name = t.Name()
			}
			return cmp.Or(schemaNames[t], name)
		}),
		jsonschema.InterceptSchema(func(p jsonschema.InterceptSchemaParams) (stop bool, err error) {
			if p.Processed {
				describe(p.Schema, p.Value.Type())
			}
			return false, nil
		}),
	}, more...)
	s, err := r.Reflect(v, options...)
	if err != nil {
		panic("rest: the schema of " + reflect.TypeOf(v).Name() + ": " + err.Error()) // types are constants
	}
	return s
}

// describe says of a shared type what the types of this package say by tags and methods.
func describe(s *jsonschema.Schema, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	description, ok := shared[t]
	if !ok {
		return
	}
	s.AdditionalProperties = new(jsonschema.SchemaOrBool).WithTypeBoolean(false)
	if description != "" {
		s.WithDescription(description)
	}
	switch t {
	case reflect.TypeFor[client.Annotations](), reflect.TypeFor[client.Said](), reflect.TypeFor[client.Use]():
		s.AddType(jsonschema.Null)
	}
}
