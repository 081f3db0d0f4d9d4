package downstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/bodies"
	"countersign/internal/mcp"
)

// Budget says what each agent may use. Its errors say which budget an agent is over; where they have a method
// RetryAfter() time.Duration, they also say when to try again.
type Budget interface {
	// Room refuses a message of so many bytes before it is read.
	Room(agent string, bytes int64) error
	// Charge charges an agent for a message of so many bytes. If that is too much it returns what refuses the
	// message, which is called for those that are refused.
	Charge(agent string, bytes int) (refuse func() error)
	// Turn waits until work on so many bytes may begin, and counts it until release is called.
	Turn(ctx context.Context, agent string, bytes int) (release func(), err error)
	// Pause holds a refusal back for a moment.
	Pause(ctx context.Context)
	// Stream counts a stream until release is called.
	Stream(ctx context.Context, agent string) (release func(), err error)
	// Sessions is how many sessions an agent may have open.
	Sessions(agent string) int
	// NoSession takes note that an agent was refused one more, and returns why.
	NoSession(agent string) error
}

// smallBody is the largest message that is read although its sender is over a budget: so that it is answered in
// the client's own words, and what takes something back is not refused.
const smallBody = 64 << 10

type overBudgetKey struct{}

// OverBudget returns what refuses the request of this context, whose agent is over a budget; nil: it is not. Of
// requests that get so far, only calls of tools and tasks/cancel can be such; all others have been refused.
func OverBudget(ctx context.Context) (refuse func() error) {
	refuse, _ = ctx.Value(overBudgetKey{}).(func() error)
	return refuse
}

func (h *HTTP) charge(agent string, bytes int) func() error {
	if h.o.Budget == nil {
		return nil
	}
	return h.o.Budget.Charge(agent, bytes)
}

// turn waits until a message of so many bytes may be read.
func (h *HTTP) turn(ctx context.Context, agent string, bytes int) (release func(), err error) {
	if h.o.Budget == nil {
		return func() {}, nil
	}
	return h.o.Budget.Turn(ctx, agent, bytes)
}

// overBudget answers a message of an agent that is over a budget. It reports false where that is left to the
// session, or the message takes something back, or may.
func (h *HTTP) overBudget(w http.ResponseWriter, m mcp.Message, over func() error) bool {
	switch {
	case m.IsResponse(), m.Method == methodCancelled, m.Method == "tools/call", m.Method == "tasks/cancel":
		return false
	case m.IsNotification():
		refuseOver(w, over())
	default:
		err := over()
		retryAfter(w, err)
		refuse(w, http.StatusOK, m.ID, overError(err))
	}
	return true
}

// refuseOver answers what is no request, or was not read.
func refuseOver(w http.ResponseWriter, over error) {
	retryAfter(w, over)
	refuse(w, http.StatusTooManyRequests, nil, overError(over))
}

func overError(over error) *mcp.Error {
	data := mcp.Object{{Name: "code", Value: jsontext.Value(`"rate_limited"`)}}
	return &mcp.Error{Code: mcp.CodeUnavailable, Message: over.Error(), Data: data.Bytes()}
}

// retryAfter says when to try again, in whole seconds.
func retryAfter(w http.ResponseWriter, over error) {
	wait := time.Second
	if e, ok := errors.AsType[bodies.Crowded](over); ok {
		wait = max(e.RetryAfter(), wait)
	}
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}
