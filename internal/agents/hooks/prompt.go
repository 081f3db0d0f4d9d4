package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"countersign/approval"
	"countersign/client"
)

// The tool that Claude Code's --permission-prompt-tool asks.
const (
	PermissionPromptTool        = "countersign__permission_prompt"
	PermissionPromptDescription = "For Claude Code's --permission-prompt-tool: says whether a tool call may run. " +
		"Not to be called by a model."
	PermissionPromptSchema = `{"type":"object","properties":{"tool_name":{"type":"string"},` +
		`"input":{"type":"object"},"tool_use_id":{"type":"string"}},"required":["tool_name","input"]}`
)

// PermissionPrompt answers a permission prompt, after at most hold; with a denial where the gate cannot be asked.
func (g Gate) PermissionPrompt(ctx context.Context, arguments []byte, hold time.Duration,
	log *slog.Logger) ([]byte, error) {
	answer, err := g.permissionPrompt(ctx, arguments, hold, log)
	if err != nil {
		return DenyPermissionPrompt(strings.TrimSuffix(err.Error(), "."))
	}
	return answer, nil
}

// permissionPrompt returns errors that may be shown.
func (g Gate) permissionPrompt(ctx context.Context, arguments []byte, hold time.Duration,
	log *slog.Logger) ([]byte, error) {
	e, err := ParsePermissionPrompt(arguments)
	if err != nil {
		return nil, err
	}
	c, err := e.Call(nil)
	if err != nil {
		return nil, err
	}
	c.AcceptsEdits = true // updatedInput is what runs
	answer, err := g.Ask(ctx, c, hold)
	if err != nil {
		level := slog.LevelWarn
		if approval.CodeOf(err) == approval.CodeRateLimited {
			level = slog.LevelDebug // it is counted, and admins are told once
		}
		log.Log(ctx, level, "a permission prompt could not be answered", "agent", g.Agent, "error", err)
		if e, ours := errors.AsType[*approval.Error](err); ours {
			return nil, errors.New(e.Message) // the rest is for the log
		}
		return nil, errors.New("an internal error")
	}
	return AnswerPermissionPrompt(answer, c)
}

// ParsePermissionPrompt reads what Claude Code sends to the tool that --permission-prompt-tool names. The
// event has no session and no working directory: the program that gives the tool sets CWD and SessionID, where it
// knows them.
func ParsePermissionPrompt(arguments []byte) (Event, error) {
	e := Event{Agent: ClaudeCode, Name: "PermissionPrompt", Kind: BeforeTool}
	f, err := readObject(arguments)
	if err != nil {
		return e, fmt.Errorf("this is not a permission prompt: %w", err)
	}
	if e.Tool, err = f.text("tool_name"); err != nil {
		return e, err
	}
	if e.ToolUseID, err = f.text("tool_use_id"); err != nil {
		return e, err
	}
	switch {
	case e.Tool == "":
		return e, errors.New("the permission prompt has no tool_name")
	case !f.is("input", '{'):
		return e, errors.New("the permission prompt has no input that is an object")
	}
	e.Input = json.RawMessage(f["input"])
	return e, e.splitTool(f)
}

// AnswerPermissionPrompt is the text that answers a permission prompt. What policy allows runs with the bytes
// of c, what was approved with those that people saw; whatever else is a denial that tells the model what to
// do next.
func AnswerPermissionPrompt(a client.Answer, c client.Call) ([]byte, error) {
	type answer struct {
		Behavior string          `json:"behavior"`
		Input    json.RawMessage `json:"updatedInput,omitempty"`
		Message  string          `json:"message,omitempty"`
	}
	switch a.Kind {
	case client.AnswerAllow:
		return encode(answer{Behavior: "allow", Input: c.Args})
	case client.AnswerApproved:
		args, err := approvedArgs(a)
		if err != nil {
			return nil, err
		}
		return encode(answer{Behavior: "allow", Input: args})
	}
	return encode(answer{Behavior: "deny", Message: reason(a)})
}

// DenyPermissionPrompt answers a permission prompt where the gate could not be asked.
func DenyPermissionPrompt(why string) ([]byte, error) {
	return AnswerPermissionPrompt(client.Answer{Kind: client.AnswerDenied, Message: "The gate could not be asked: " + why +
		"."}, client.Call{})
}
