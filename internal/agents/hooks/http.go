package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
	"countersign/internal/bodies"
	"countersign/internal/ratelimitedlog"
)

// MaxHold is how long [Handler] holds a call at most, as long as Claude Code's longest usual time-out.
const MaxHold = 10 * time.Minute

// Handler answers Claude Code's hooks of type http. The body is the event and the answer its output, as
// for a command. What else a command has as flags stands in the URL's query: wait=55s, defer=true, and
// gateway=NAME as often as needed.
//
// Claude Code runs a call whose hook answers anything but 200, unless its settings say otherwise. So each
// fault is a 200 that denies, saying which; a token that is not an agent's too. At the beginning of a
// session or a turn, where nothing can be denied, a fault is told to the user and stops nothing.
//
// It does not look at files: that would show, in an agent's own request, what the gate's user can read.
type Handler struct {
	// Asker returns the gate for the agent whose bearer token it is. The error is told to the agent. It is
	// required.
	Asker func(r *http.Request) (client.Asker, error)
	// CheckBudget refuses an event of so many bytes before it is read, where the agent that Asker said it is from has no
	// budget for it. nil: it has. Only what is large is asked about: the rest is read, and answered by what it is.
	CheckBudget func(a client.Asker, bytes int) error
	// Charge takes an event of so many bytes from the budget of the agent that Asker said it is from; an error
	// refuses it. nil: no agent has one.
	Charge func(a client.Asker, bytes int) error
	// Turn waits until work on so many bytes of that agent's may begin, and counts it until release is called. nil:
	// nothing waits.
	Turn func(ctx context.Context, a client.Asker, bytes int) (release func(), err error)
	// Pause holds a refusal of CheckBudget or Charge back for a moment. nil: it is answered at once.
	Pause func(ctx context.Context)
	Log   *slog.Logger // nil: nothing is logged
	Now   func() time.Time

	strangers ratelimitedlog.Counter
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "Hooks are sent with POST.", http.StatusMethodNotAllowed)
		return
	}
	e := Event{Agent: ClaudeCode, Name: "PreToolUse", Kind: BeforeTool}
	defer func() {
		if p := recover(); p != nil {
			h.fault(w, r, e, fmt.Errorf("panic: %v", p), "an internal error")
		}
	}()
	asker, err := h.Asker(r)
	if err != nil {
		if n, tell := h.strangers.Add(h.Now()); tell {
			h.log().WarnContext(r.Context(), "hooks without an agent's token were refused; check COUNTERSIGN_TOKEN where the "+
				"agents run", "count", n, "error", err)
		}
		h.refuse(w, r, e, err, err.Error())
		return
	}
	input, ok, over := h.admit(w, r, e, asker)
	if !ok {
		return
	}
	hook := Hook{Asker: asker}
	if h.Turn != nil {
		hook.turn = func(n int) (func(), error) { return h.Turn(r.Context(), asker, n) }
	}
	release, err := hook.begins(len(input))
	if err != nil {
		h.fault(w, r, e, err, publicMessage(err))
		return
	}
	read, err := Parse(ClaudeCode, input)
	release()
	if read.Kind != 0 {
		e = read
	}
	if over != nil {
		h.over(w, r, e, over)
		return
	}
	if err == nil {
		err = hook.configure(r.URL.RawQuery)
	}
	if err != nil {
		h.fault(w, r, e, err, err.Error())
		return
	}
	h.answer(w, r, hook, e)
}

// smallEvent is the largest event that is read although its agent is over a budget, so that the beginning of a turn is
// answered as one.
const smallEvent = 64 << 10

// admit reads an event, and answers one that is not taken. over refuses what is answered by what it is.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request, e Event,
	asker client.Asker) (input []byte, ok bool, over error) {
	if h.CheckBudget != nil && r.ContentLength > smallEvent && r.ContentLength <= MaxInput {
		if over = h.CheckBudget(asker, int(r.ContentLength)); over != nil {
			h.over(w, r, e, over)
			return nil, false, nil
		}
	}
	input, why, err := readEvent(w, r)
	if err != nil {
		h.fault(w, r, e, err, why)
		return nil, false, nil
	}
	if h.Charge != nil {
		over = h.Charge(asker, len(input))
	}
	if over != nil && len(input) > smallEvent {
		h.over(w, r, e, over)
		return nil, false, nil
	}
	return input, true, over
}

// over answers an event whose agent is over a budget.
func (h *Handler) over(w http.ResponseWriter, r *http.Request, e Event, over error) {
	if h.Pause != nil {
		h.Pause(r.Context())
	}
	h.fault(w, r, e, over, publicMessage(over))
}

// readEvent reads an event; why puts an error into words for the agent.
func readEvent(w http.ResponseWriter, r *http.Request) (input []byte, why string, err error) {
	input, err = bodies.ReadAll(http.MaxBytesReader(w, r.Body, MaxInput))
	if err == nil {
		return input, "", nil
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, "the event is longer than 1 MiB", err
	}
	if busy, ok := errors.AsType[bodies.Crowded](err); ok {
		err = &approval.Error{Code: approval.CodeRateLimited, Message: "Too many events arrive at once. Try again.",
			After: busy.RetryAfter(), Err: err}
		return nil, publicMessage(err), err
	}
	return nil, "the event did not arrive in full", err
}

// answer answers an event, and acknowledges what it told once that was written.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, hook Hook, e Event) {
	control := http.NewResponseController(w)
	if hook.Wait > 0 { // a server that has no deadline needs none
		_ = control.SetWriteDeadline(time.Now().Add(hook.Wait + 15*time.Second))
	}
	reply, err := hook.Answer(r.Context(), e)
	if err != nil {
		h.fault(w, r, e, err, publicMessage(err))
		return
	}
	if reply.Output == nil {
		reply.Output = []byte("{}\n")
	}
	if h.write(w, reply.Output) && len(reply.Told) > 0 && control.Flush() == nil {
		if _, err := hook.Asker.Ack(r.Context(), reply.Told...); err != nil {
			h.log().WarnContext(r.Context(), "decisions that the agent was told could not be marked as read; it is told them "+
				"again", "error", err)
		}
	}
}

// configure reads what a command has as flags.
func (h *Hook) configure(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the hook's URL has a query that cannot be read")
	}
	for name, values := range q {
		switch last := values[len(values)-1]; name {
		case "wait":
			d, err := time.ParseDuration(last)
			if n, errN := strconv.Atoi(last); errN == nil {
				d, err = time.Duration(n)*time.Second, nil
			}
			if err != nil || d < 0 || d > MaxHold {
				return fmt.Errorf("wait in the hook's URL must be a duration up to %s, such as 55s", MaxHold)
			}
			h.Wait = d
		case "defer":
			if h.Defer, err = strconv.ParseBool(last); err != nil {
				return errors.New("defer in the hook's URL must be true or false")
			}
		case "gateway":
			h.Gateways = values
		default:
			return fmt.Errorf("the hook's URL has %q, which is unknown; it may have wait, defer and gateway", shorten(name, 40))
		}
	}
	return nil
}

// publicMessage returns what an agent may read of an error.
func publicMessage(err error) string {
	if e, ok := errors.AsType[*approval.Error](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*args.Error](err); ok {
		return e.Error()
	}
	return "the gate could not answer"
}

func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return h.Log
}

// fault answers what went wrong.
func (h *Handler) fault(w http.ResponseWriter, r *http.Request, e Event, err error, why string) {
	level := slog.LevelWarn
	if approval.CodeOf(err) == approval.CodeRateLimited {
		level = slog.LevelDebug // it is counted, and admins are told once
	}
	h.log().Log(r.Context(), level, "a hook could not be answered", "event", e.Name, "error", err)
	h.refuse(w, r, e, err, why)
}

// refuse is fault without a line in the log.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, e Event, err error, why string) {
	why = strings.TrimSuffix(why, ".")
	var out []byte
	if e.Kind == Beginning {
		out, err = encode(map[string]string{"systemMessage": "Countersign could not find out what was decided: " + why + "."})
	} else {
		out, err = e.deny(Fault(err, why))
	}
	if err != nil {
		h.log().ErrorContext(r.Context(), "a hook's answer could not be built", "error", err)
		return
	}
	h.write(w, out)
}

// Fault is what the model reads where the gate could not be asked because of an error, put into the words why.
func Fault(err error, why string) string {
	if approval.CodeOf(err) == approval.CodeRateLimited {
		return "The call was not run: " + why + "."
	}
	return "The gate could not be asked, so the call was not run: " + why +
		". Repeating it will not help until that is fixed; tell the user."
}

// Block is the denial of a call with such a [Fault], in the agent's language.
func Block(agent Agent, fault string) []byte {
	out, err := Event{Agent: agent, Name: "PreToolUse"}.deny(fault)
	if err != nil {
		panic("hooks: " + err.Error()) // of our own types, which can be encoded
	}
	return out
}

func (h *Handler) write(w http.ResponseWriter, out []byte) bool {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	_, err := w.Write(out)
	return err == nil
}
