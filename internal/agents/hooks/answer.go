package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"countersign/approval"
	"countersign/client"
)

// What a model is told beside the gate's message. Each ending keeps its own words: that no person answered is
// never told as a no.
const (
	afterPending = "The call was not run. Do not keep repeating it, and do not look for a way around it. Go on with " +
		"other work, or end your turn and say what you are waiting for. The answer comes at the start of the next turn. " +
		"Once the call is approved, make the identical call again: that runs it once."
	afterDenied = "The call was not run. Do not repeat it; try a different approach."
	afterNobody = "The call was not run. Nobody said no. Make the identical call again if it is still needed: people " +
		"are asked again."
	afterCancel = "The call was not run. The request was taken back, which is not a denial. Make the identical call " +
		"again only if it is still needed: people are asked again."
)

// reason is what the model reads of a call that does not run. It is never empty: some agents run a call
// that was denied without a reason.
func reason(a client.Answer) string {
	message := strings.TrimSpace(a.Message)
	if message == "" {
		message = fmt.Sprintf("The gate's answer is %q.", shorten(string(a.Kind), 40))
	}
	next := afterDenied
	switch {
	case a.EndCode != "" && a.Kind == client.AnswerDenied:
		return message // which says what to do next
	case a.EndCode == approval.EndFrozen:
		return sentence(message) + " The call was not run."
	}
	switch a.Kind {
	case client.AnswerPending:
		next = afterPending
	case client.AnswerExpired, client.AnswerLapsed:
		next = afterNobody
	case client.AnswerCancelled:
		next = afterCancel
	case client.AnswerDenied:
		if strings.Contains(message, "do not repeat it") {
			return message
		}
	}
	return sentence(message) + " " + next
}

// isGranted reports whether a person's grant lets the call run.
func isGranted(a client.Answer) bool {
	return a.Kind == client.AnswerAllow && a.ReasonCode == approval.ReasonGranted
}

// sentence ends text as a sentence ends.
func sentence(text string) string {
	if end, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(".!?…。！？", end) {
		return text
	}
	return text + "."
}

// decision is the answer to a call in the words of Claude Code and Codex.
type decision struct {
	Event      string          `json:"hookEventName"`
	Permission string          `json:"permissionDecision,omitempty"`
	Reason     string          `json:"permissionDecisionReason,omitempty"`
	Input      json.RawMessage `json:"updatedInput,omitempty"`
	Context    string          `json:"additionalContext,omitempty"`
}

// geminiDecision is the answer in the words of Gemini CLI.
type geminiDecision struct {
	Decision string          `json:"decision,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Specific *geminiSpecific `json:"hookSpecificOutput,omitempty"`
}

type geminiSpecific struct {
	Event   string          `json:"hookEventName"`
	Input   json.RawMessage `json:"tool_input,omitempty"`
	Context string          `json:"additionalContext,omitempty"`
}

// approvedArgs are the arguments that the call runs with.
func approvedArgs(a client.Answer) (json.RawMessage, error) {
	if len(a.Args) == 0 {
		return nil, errors.New("the gate approved the call but did not say with which arguments; the approval may be used up")
	}
	return a.Args, nil
}

// say puts an answer into the agent's words; nothing means that there is no opinion.
func (e Event) say(a client.Answer, mayDefer bool) ([]byte, error) {
	var args json.RawMessage
	if a.Kind == client.AnswerApproved {
		var err error
		if args, err = approvedArgs(a); err != nil {
			return nil, err
		}
	}
	switch {
	case isGranted(a) && e.Agent == Gemini:
		return encode(geminiDecision{Decision: "allow", Reason: a.Message})
	case isGranted(a): // a person has said yes to what the call itself says
		return encode(specific{decision{Event: e.Name, Permission: "allow", Reason: a.Message, Input: e.Input}})
	case a.Kind == client.AnswerAllow && e.Agent == Gemini:
		return encode(geminiDecision{Decision: "allow"})
	case a.Kind == client.AnswerAllow:
		return nil, nil
	case a.Kind == client.AnswerApproved && e.Agent == Gemini:
		// It takes tool_input in place of all that the model sent, and tells the model that a hook changed
		// its call: so there is one only where something has to change.
		d := geminiDecision{Decision: "allow", Reason: a.Message}
		input, err := e.replacement(args)
		if err != nil {
			return nil, err
		}
		if input != nil {
			d.Specific = &geminiSpecific{Event: e.Name, Input: input}
		}
		return encode(d)
	case a.Kind == client.AnswerApproved:
		return encode(specific{decision{Event: e.Name, Permission: "allow", Reason: a.Message, Input: args,
			Context: a.Note}})
	case a.Kind == client.AnswerPending && mayDefer && e.Agent == ClaudeCode:
		return encode(specific{decision{Event: e.Name, Permission: "defer", Reason: reason(a)}})
	}
	return e.deny(reason(a))
}

// specific is how Claude Code and Codex wrap an answer.
type specific struct {
	Output decision `json:"hookSpecificOutput"`
}

func (e Event) deny(reason string) ([]byte, error) {
	if e.Agent == Gemini {
		return encode(geminiDecision{Decision: "deny", Reason: reason})
	}
	return encode(specific{decision{Event: e.Name, Permission: "deny", Reason: reason}})
}

// tell adds text to what the model reads next.
func (e Event) tell(text string) ([]byte, error) {
	if e.Agent == Gemini {
		return encode(geminiDecision{Specific: &geminiSpecific{Event: e.Name, Context: withoutAngles(text)}})
	}
	return encode(specific{decision{Event: e.Name, Context: text}})
}

// withoutAngles writes < and > as JSON writes them in escapes. Gemini CLI turns them into &lt; and &gt; before
// its model reads the news (0.61.0), and a model would repeat the command with those in it. The escapes
// mean the same in the arguments, which are JSON; for the rest of the text a line says it.
func withoutAngles(text string) string {
	if !strings.ContainsAny(text, "<>") {
		return text
	}
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(text) +
		"\n" + `In these lines \u003c is the less-than sign and \u003e the greater-than sign: write the signs themselves when you repeat a call.` //nolint:lll // one literal
}

// encode writes one line of JSON, whole.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("the answer cannot be written as JSON: %w", err)
	}
	return b.Bytes(), nil
}
