package config

import (
	"errors"
	"strings"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/policy"

	"github.com/go-json-experiment/json"
)

// Question is a call as the operator types it, to be explained and not run.
type Question struct {
	Agent     string
	Scope     string
	SessionID string
	Method    string // an MCP method; "": tools/call
	Server    string // the MCP server; also in Tool
	Tool      string // tool, or server/tool; not needed with another method than tools/call
	Args      []byte // a JSON object; nil is {}
	// Annotations are what the tool's server says of it, as a JSON object like {"readOnly":true}; nil: it says nothing.
	Annotations []byte
}

// What an explanation is made of, for those who do not import the package policy.
type (
	Rule        = policy.RuleInfo
	Guard       = policy.GuardInfo
	Explanation = policy.Explanation
)

// The guard of the gate's own files, for those who write configurations.
const (
	GuardGateFiles = policy.GuardGateFiles
	OldGuardName   = policy.OldGuardName
)

var errAnnotations = errors.New(`annotations are a JSON object of readOnly, destructive, idempotent and openWorld, ` +
	`such as {"readOnly":true}`)

// Explain tells what the policy says of a call and why: each rule's answer in order. The error says
// what is wrong with the question.
func (c *Config) Explain(q Question) (Explanation, error) {
	if q.Args == nil {
		q.Args = []byte("{}")
	}
	parsed, err := args.Parse(q.Args)
	if err != nil {
		return Explanation{}, plainError(err)
	}
	call := approval.Call{Agent: q.Agent, Scope: q.Scope, SessionID: q.SessionID, Server: q.Server, Tool: q.Tool,
		Args: parsed}
	if server, tool, found := strings.Cut(q.Tool, "/"); found {
		call.Server, call.Tool = server, tool
	}
	if q.Method != "" && q.Method != "tools/call" {
		call.Method, call.Tool = q.Method, approval.MethodTool(q.Method)
	}
	if q.Annotations != nil {
		call.Annotations = &approval.Annotations{}
		if err := json.Unmarshal(q.Annotations, call.Annotations, json.RejectUnknownMembers(true)); err != nil {
			return Explanation{}, errAnnotations
		}
	}
	if err := call.Validate(); err != nil {
		return Explanation{}, plainError(err)
	}
	return c.Policy.Explain(call), nil
}

// plainError is the sentence of a domain error without its code.
func plainError(err error) error {
	if e, ok := errors.AsType[*approval.Error](err); ok {
		return errors.New(e.Message)
	}
	return err
}
