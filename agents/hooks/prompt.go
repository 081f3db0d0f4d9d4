package hooks

import (
	"countersign/client"
	"encoding/json"
	"errors"
	"fmt"
)

// ParsePermissionPrompt reads what Claude Code sends to the tool that --permission-prompt-tool names. The
// event has no session and no working directory: whoever gives the tool sets CWD and SessionID, where it
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
		args, err := covered(a)
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
