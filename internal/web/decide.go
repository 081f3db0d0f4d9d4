package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/lists"
	"countersign/internal/locale"
)

var errNothingPicked = approval.Errorf(approval.CodeInvalidParameter, "Choose at least one request.")

// decidedData is what came of several decisions, one by one.
type decidedData struct {
	Approve bool
	Results []decidedResult
	Back    string
}

// decidedResult is what came of one.
type decidedResult struct {
	ID, Target string
	Summary    string // what it is about: what will happen, or would have
	Short      string // tells it from others of the same tool
	Done       bool
	Class      string // of its badge
	Word, Text string
}

// picked is a request in a form, with the version that was shown.
type picked struct{ id, version string }

// parsePick reads what a form names a request by.
func parsePick(s string) (picked, bool) {
	id, version, ok := strings.Cut(s, ".")
	id, valid := approval.ParseID(id)
	return picked{id, version}, ok && valid && version != "" && len(version) <= 64
}

// picks reads which requests a form decides, and how.
func picks(form url.Values) (some []picked, approve bool, err error) {
	word := form.Get("do")
	if word != "approve" && word != "deny" {
		return nil, false, errForm
	}
	for _, n := range form["pick"] {
		p, ok := parsePick(n)
		if !ok {
			return nil, false, errForm
		}
		some = append(some, p)
	}
	switch {
	case len(some) == 0:
		return nil, false, errNothingPicked
	case len(some) > approval.MaxDecideMany:
		return nil, false, approval.Errorf(approval.CodeInvalidParameter, "At most %d requests are decided at once.",
			approval.MaxDecideMany)
	}
	return some, word == "approve", nil
}

// decideMany decides what was chosen in the list, each by itself.
func (p *inboxPages) decideMany(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	some, approve, err := picks(form)
	if err != nil {
		return err
	}
	d := approval.Decision{Approve: approve, By: x.viewer.Actor, Via: approval.ViaWeb, Reason: form.Get("reason"),
		Versions: map[string]string{}}
	data := decidedData{Approve: approve, Back: isWithin("/", form.Get("back"))}
	places, ids := map[string]int{}, []string(nil)
	for _, one := range some {
		if _, twice := places[one.id]; twice {
			continue
		}
		places[one.id] = len(data.Results)
		left, result, err := p.leaveOut(ctx, x, one.id, &d)
		if err != nil {
			return err
		}
		if data.Results = append(data.Results, result); !left {
			ids, d.Versions[one.id] = append(ids, one.id), one.version
		}
	}
	if len(ids) > 0 {
		done, err := p.gate.DecideMany(ctx, ids, d)
		if err != nil {
			return err
		}
		for i := range done {
			data.Results[places[done[i].ID]] = decidedResultOf(x, &done[i])
		}
	}
	if one := data.Results[0]; len(data.Results) == 1 && one.Done {
		x.Note("inbox_done", "what", one.Word, "tool", one.Target)
		x.Redirect(data.Back)
		return nil
	}
	return x.page(http.StatusOK, "decided", x.lang.Say("inbox_results"), data)
}

// leaveOut reports whether a request is not approved from a list, and says so.
func (p *inboxPages) leaveOut(ctx context.Context, x *exchange, id string, d *approval.Decision) (
	bool, decidedResult, error,
) {
	short := approval.Short(id)
	result := decidedResult{ID: id, Target: short, Summary: short, Short: short, Class: "denied",
		Word: x.lang.Say("inbox_not_decided")}
	h, err := p.gate.RequestHead(ctx, x.viewer.Actor, id)
	if approval.CodeOf(err) == approval.CodeNotFound {
		return false, result, nil // the gate says so, on record
	}
	if err != nil {
		return false, result, err
	}
	m, r, whole := x.maker(), h.Request, false
	if h.Wide <= lists.MostShownArgs {
		if r, err = p.gate.Request(ctx, x.viewer.Actor, id); err != nil {
			return false, result, err
		}
		_, whole = m.Sentence(r)
	}
	result.Target, result.Summary = word(r.Target()), m.Summary(r)
	if !d.Approve || r.Status != approval.Pending {
		return false, result, nil
	}
	left := leftOut(&r, whole)
	if left == "" {
		return false, result, nil
	}
	result.Class, result.Word, result.Text = "pending", x.lang.Say("inbox_left"), x.lang.Say(left)
	return true, result, nil
}

// decidedResultOf tells what came of one decision.
func decidedResultOf(x *exchange, d *approval.Decided) decidedResult {
	r := &d.Request
	short := approval.Short(d.ID)
	result := decidedResult{ID: d.ID, Target: short, Summary: short, Short: short, Done: d.Refusal == nil}
	if r.ID != "" {
		result.Target, result.Summary = word(r.Target()), x.maker().Summary(*r)
	}
	if d.Refusal != nil {
		result.Class, result.Word = "denied", x.lang.Say("inbox_not_decided")
		result.Text = refusal(x, d.Refusal)
		return result
	}
	result.Class, result.Word = string(r.Status), outcome(x, r)
	return result
}

// outcome says what a decision that was taken came to.
func outcome(x *exchange, r *approval.Request) string {
	if r.Status == approval.Pending {
		return x.lang.Say("inbox_counts", "have", strconv.Itoa(len(r.Votes)), "needed", strconv.Itoa(r.Need.Total()))
	}
	return x.lang.Say("inbox_" + string(r.Status))
}

// refusal says to the viewer why nothing was done: how the request has ended, or what is missing.
func refusal(x *exchange, err error) string {
	code := approval.CodeOf(err)
	text := x.lang.Say("frame_error_" + string(code))
	if text == "frame_error_"+string(code) {
		text = x.lang.Say("frame_error")
	}
	e, ok := errors.AsType[*approval.Error](err)
	if !ok {
		return text
	}
	if r := e.Request; r != nil && r.Status != approval.Pending {
		if how := x.maker().Whole(*r, x.now).Sentence; how != "" {
			return text + ": " + how
		}
	}
	if e.Message != "" {
		return text + ": " + legible.Line(locale.TimesIn(e.Message, x.time))
	}
	return text
}
