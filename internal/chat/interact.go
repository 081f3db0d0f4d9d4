package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// Intent is what a person means by a tap or a typed word.
type Intent string

const (
	IntentApprove Intent = "approve"
	IntentDeny    Intent = "deny"
	IntentOther   Intent = "other"   // words that mean none of these
	IntentUnclear Intent = "unclear" // a word for yes, with more that may change it

	IntentReason  Intent = "reason"  // why, of what was denied before
	IntentPending Intent = "pending" // what waits for a decision, with buttons
	IntentShow    Intent = "show"    // all of one request
	IntentLog     Intent = "log"     // the notification log
	IntentStatus  Intent = "status"  // how things stand
	IntentHelp    Intent = "help"

	IntentConfirm  Intent = "confirm"  // the yes to a question that was asked once more
	IntentBack     Intent = "back"     // the no to it
	IntentExtend   Intent = "extend"   // one hour more for a request
	IntentFreeze   Intent = "freeze"   // deny every call of an agent, or of all
	IntentUnfreeze Intent = "unfreeze" // lift that
	IntentDelegate Intent = "delegate" // another person may vote for the one who types it
	IntentEndVotes Intent = "undelegate"
	// IntentDelegations: who votes for whom
	IntentDelegations Intent = "delegations"

	IntentGrant  Intent = "grant"  // an approval answers the same call again for a while
	IntentGrants Intent = "grants" // what is granted, and denied for a while
	IntentRevoke Intent = "revoke" // end one of these
	IntentLift   Intent = "lift"   // forget a denial that answers the same call again

	IntentSignIn Intent = "sign_in" // a link to the pages

	IntentFollow   Intent = "follow"   // a person added us, or is back
	IntentUnfollow Intent = "unfollow" // a person blocked us: nothing reaches them there any more
)

// Interaction is one signed event from a chat platform: a button, or words typed to the bot. Who did it comes
// from the platform's own user id, never from anything else in the event.
type Interaction struct {
	EventID string // the platform's id of the event, with its channel: "line:01K…"
	Channel string
	By      approval.Actor // a Human, or a Stranger under the platform's id
	From    string         // the tapper's own address on the channel, for the answer
	// AnswerAt is where they alone read an answer that asks nothing, beside what they have typed in a channel: "" where
	// that is From.
	AnswerAt string
	// Elsewhere says that cards come in another place than where they typed: in direct messages.
	Elsewhere bool
	// Messages is the address at which they open that place; "": not known.
	Messages string
	ReplyTo  string // LINE reply token or Slack response_url
	Intent   Intent
	// RequestID is the request, or the card, that a button or a typed id names, and Shows what of the card is meant.
	RequestID string
	Shows     Shows
	// For is how long the approval is to answer the same call again.
	For Period
	// Typed is what may be the end of a request's id, and Name the agent or person that typed words name.
	Typed, Name string
	// QuotedID is the platform's id of the message that typed words quote.
	QuotedID string
	Reason   string
	Text     string // all that was typed, "" for a button
	// At is when the platform says it happened; the zero time when it does not say.
	At time.Time
	// OneReply says that the channel answers several cards in one message.
	OneReply bool
	// AsksWhy says that the channel has no dialog: after a denial without a reason, and where one is required, the next
	// text gives it.
	AsksWhy bool
	// Told says that the platform shows the tapper a refusal by itself, as in a dialog that stays open: a
	// refusal then needs no answer of its own.
	Told bool

	open      *approval.Notification // the question for a reason that waits for their next message; nil: none
	language  string                 // of Text, where it is clear: the answer is in it
	confirmed bool                   // what was asked once more was answered with yes
	// unresolved is why Typed is no request's id: [approval.CodeNotFound], [approval.CodeAmbiguousID], or too short.
	unresolved approval.Code
	couldBe    string // the ids that it could be
}

// ReadWords makes the interaction that of what a person typed, perhaps in answer to a message of the platform's id.
func (t *Interaction) ReadWords(text, quoted string) {
	w := ParseWords(text, quoted != "")
	t.Intent, t.RequestID, t.Reason, t.Text, t.QuotedID = w.Intent, w.ID, w.Reason, text, quoted
	t.Typed, t.Name, t.Shows = w.Typed, w.Name, w.Shows
}

// InteractionResult is what became of a tap.
type InteractionResult struct {
	Duplicate bool          // seen before: nothing was done
	Ignored   bool          // older than the request it names: nothing was done and no person answered
	Code      approval.Code // why nothing was decided, "" if something was or nothing was asked
	Text      string        // the answer
	Decided   []approval.Request
	Explained []approval.Request // denied before, and given their reason now

	after func(context.Context) // what is left to do once the transaction has committed; nil: nothing
}

// maxReplyCards is how many cards one answer brings.
const maxReplyCards = 5

// Interact carries out an interaction: its event id, the decision it carries and the answer to who made it are one
// transaction. One that was seen before, came too late, or comes from a person who may not decide
// changes nothing but the audit log. The error is only ever about the store: then nothing was kept,
// and the platform may deliver again.
func (s *Service) Interact(ctx context.Context, t Interaction) (InteractionResult, error) {
	t.At = s.store.FromWall(t.At)
	t, err := s.resolve(ctx, t)
	if err != nil {
		return InteractionResult{}, err
	}
	out, err := approval.Update(ctx, s.store, t.scope(), func(tx approval.Tx) (InteractionResult, error) {
		w, out, err := s.firstSight(ctx, tx, t)
		if err != nil || out.Duplicate {
			return out, err
		}
		return w.carryOut()
	})
	if err == nil && out.after != nil {
		out.after(ctx)
	}
	return out, err
}

// scope is what an interaction is about: a button is about what it names, and words may be about anything.
func (t Interaction) scope() approval.Scope {
	if t.Text != "" || t.QuotedID != "" || t.RequestID == "" {
		return approval.WholeStore()
	}
	switch t.Intent {
	case IntentApprove, IntentDeny, IntentExtend, IntentGrant, IntentRevoke, IntentLift:
		return approval.OfID(t.RequestID)
	case IntentConfirm, IntentBack:
		return approval.OfNotification(t.RequestID)
	}
	return approval.WholeStore()
}

// firstSight begins the work on an interaction: it marks the event as seen, and who made it as who they are now.
func (s *Service) firstSight(ctx context.Context, tx approval.Tx, t Interaction) (work, InteractionResult, error) {
	w := work{wording{s, t}, ctx, tx, s.gate.In(ctx, tx)}
	fresh, err := tx.FirstSight(t.EventID)
	if err != nil {
		return w, InteractionResult{}, err
	}
	if !fresh {
		return w, InteractionResult{Duplicate: true}, w.ignore("duplicate_event")
	}
	w.By = w.byNow()
	if w.language = Language(w.Text); w.language != "" {
		w.By.Locale = w.language
	}
	tx.Ahead(func() {
		_ = s.outbox.ReleaseCards(tx, w.address())
		_, _ = tx.Dead(w.address())
		_, _ = w.openQuestion()
		if w.RequestID != "" {
			_, _ = w.aimAt()
		}
	})
	if err := s.outbox.ReleaseCards(tx, w.address()); err != nil {
		return w, InteractionResult{}, err
	}
	if dead, err := tx.Dead(w.address()); err != nil || !dead || w.Intent == IntentUnfollow {
		return w, InteractionResult{}, err
	}
	return w, InteractionResult{}, s.outbox.MarkReachable(ctx, tx, w.By, w.address(), w.when(tx))
}

// byNow is who made an interaction, by the configuration of now: the user id may be another's since it came in, or
// no person's, though they are there.
func (w wording) byNow() approval.Actor {
	if w.By.Kind == approval.Human && w.whose != nil {
		if who, ok := w.whose(w.Channel, w.From); !ok || who.Name != w.By.Name {
			return w.stranger()
		}
	}
	return w.gate.ActorNow(w.By)
}

// stranger is who made an interaction where that is no person whom the configuration knows.
func (t Interaction) stranger() approval.Actor {
	return approval.Actor{Kind: approval.Stranger, Name: t.Channel + ":" + t.From}
}

// asks reports whether the person who made the interaction can be asked for a reason, which their next message then is:
// where they are alone with us, and there is no dialog.
func (t Interaction) asks() bool { return t.AsksWhy || t.Text != "" && !t.Elsewhere }

// address is where the person who made the interaction is answered.
func (t Interaction) address() approval.Address {
	return approval.Address{Channel: t.Channel, To: t.From}
}

// when is the time of an interaction: as the platform says, or now.
func (t Interaction) when(tx approval.Tx) time.Time {
	if t.At.IsZero() || t.At.After(tx.Now()) {
		return tx.Now()
	}
	return t.At
}

// Asked is what became of a button whose reason is still to come.
type Asked struct {
	InteractionResult
	Open []approval.Request // what a dialog may now ask about; empty: the result tells the rest
}

// Ask takes a button that a dialog may ask the reason for: any denial, and an approval of what needs a
// reason. Where the person who pressed it may decide, its event is marked as seen and all that the dialog is about is
// returned: it stays as it is, and the dialog's submission is an interaction of its own. Where there is nothing
// to ask, it is as [Service.Interact].
func (s *Service) Ask(ctx context.Context, t Interaction) (Asked, error) {
	t.At = s.store.FromWall(t.At)
	return approval.Update(ctx, s.store, t.scope(), func(tx approval.Tx) (out Asked, err error) {
		w, seen, err := s.firstSight(ctx, tx, t)
		if err != nil || seen.Duplicate {
			return Asked{InteractionResult: seen}, err
		}
		if decides := w.Intent == IntentApprove || w.Intent == IntentDeny; !decides || !w.By.MayDecide() {
			out.InteractionResult, err = w.carryOut()
			return out, err
		}
		found, answer, err := w.aim()
		if err != nil || found.ids == nil {
			return Asked{InteractionResult: answer}, err
		}
		open, err := w.toAskAbout(found.ids)
		if err != nil || len(open) > 0 {
			return Asked{Open: open}, err
		}
		out.InteractionResult, err = w.decideEach(found)
		return out, err
	})
}

// toAskAbout returns the pending requests that a dialog asks the reason of, as the person who reads it sees them; none
// where no reason is asked.
func (w work) toAskAbout(ids []string) (open []approval.Request, err error) {
	asks := w.Intent == IntentDeny
	for _, id := range ids {
		r, err := w.in.Request(id)
		if err != nil && !errors.Is(err, approval.ErrNotFound) {
			return nil, err
		}
		if err == nil && r.Status == approval.Pending {
			open = append(open, r.ByWall(w.store))
			asks = asks || r.RequireReason && !takesPasskey(w.Interaction, r)
		}
	}
	if !asks {
		return nil, nil
	}
	return open, nil
}

func (w work) ignore(reason string) error {
	e := approval.Event{Type: approval.EventWebhookRefused, Actor: w.By.String(), Reason: reason,
		Decision: decisionWord(w.Intent)}
	e.Data = approval.EventData(map[string]any{"channel": w.Channel,
		"event_id": legible.Cut(legible.Line(w.EventID), 128)})
	return w.audit.Append(w.ctx, w.tx, e)
}

// decisionWord is what the audit log says was wanted: nothing, unless it is a decision.
func decisionWord(i Intent) string {
	if i == IntentApprove || i == IntentDeny {
		return string(i)
	}
	return ""
}

// carryOut does what an interaction wants.
func (w work) carryOut() (InteractionResult, error) {
	var err error
	if w.open, err = w.openQuestion(); err != nil {
		return InteractionResult{}, err
	}
	if w.unresolved != "" && w.By.Kind == approval.Human {
		return w.unresolvedID()
	}
	switch w.Intent {
	case IntentApprove, IntentDeny:
		return w.decide()
	case IntentConfirm, IntentBack:
		if w.Text != "" {
			return w.takeBack()
		}
		return w.answerOnce()
	case IntentExtend:
		return w.extend()
	case IntentGrant:
		return w.grant()
	case IntentRevoke, IntentLift:
		return w.endGrant()
	case IntentFreeze:
		return w.freeze()
	case IntentUnfreeze:
		return w.unfreeze()
	case IntentDelegate, IntentDelegations, IntentEndVotes:
		return w.delegation()
	case IntentFollow:
		return w.welcome()
	case IntentUnfollow:
		after, err := w.outbox.MarkUnreachable(w.ctx, w.tx, w.By, w.address(), w.when(w.tx))
		return InteractionResult{after: after}, err
	case IntentOther, IntentReason:
		if w.By.MayDecide() {
			if out, done, err := w.giveReason(); err != nil || done {
				return out, err
			}
		}
	}
	return w.command()
}

func (w work) decide() (InteractionResult, error) {
	found, answer, err := w.aim()
	if err != nil || found.ids == nil {
		return answer, err
	}
	unambiguous, err := w.saysOneThing(found.ids)
	switch {
	case err != nil:
		return InteractionResult{}, err
	case !unambiguous:
		return w.unclear()
	}
	return w.decideEach(found)
}

// saysOneThing reports whether typed words say one thing of their targets: an approval has no reason beside it, and
// what quotes one card names no other request. A person who may not decide is told so first.
func (w work) saysOneThing(meant []string) (bool, error) {
	switch {
	case w.Text == "" || !w.By.MayDecide():
		return true, nil
	case w.Intent == IntentApprove && !approval.Blank(w.Reason):
		return false, nil
	case w.RequestID == "" || w.QuotedID == "":
		return true, nil
	}
	ids, err := w.findQuoted()
	return len(ids) == 0 || slices.ContainsFunc(meant, func(id string) bool { return slices.Contains(ids, id) }), err
}

// unclear answers words that decide nothing with the cards of the requests that they name, or else with
// what waits.
func (w work) unclear() (InteractionResult, error) {
	ids, err := w.findNamed()
	if err != nil {
		return InteractionResult{}, err
	}
	e := approval.Event{Type: approval.EventDecisionRefused, Actor: w.By.String(), Decision: string(IntentApprove),
		Reason: "unclear", Data: approval.EventData(map[string]any{"via": w.Channel})}
	var text string
	var open []approval.Head
	if len(ids) == 0 {
		list, err := w.waiting()
		if err != nil {
			return InteractionResult{}, err
		}
		open = list.newest
		if text = w.say(phrases.SayUnclear); list.total == 0 {
			text = w.waitingLine(list)
		}
	} else {
		var over []string
		for _, id := range ids {
			r, err := w.in.Head(id)
			switch {
			case errors.Is(err, approval.ErrNotFound):
				over = append(over, w.say(phrases.SayNoRequest))
			case err != nil:
				return InteractionResult{}, err
			case r.Status == approval.Pending:
				e.ApprovalID, e.Agent, e.Tool, e.Risk = r.ID, r.Agent, r.Target(), r.Risk
				open = append(open, r)
			default:
				over = append(over, w.late(r.Request))
			}
		}
		if text = strings.Join(over, "\n"); len(open) > 0 {
			text = w.say(phrases.SayUnclear)
		}
		open = open[:min(len(open), maxReplyCards)]
	}
	if err := w.audit.Append(w.ctx, w.tx, e); err != nil {
		return InteractionResult{}, err
	}
	return InteractionResult{Text: text}, w.reply(approval.Notification{Text: text}, open)
}

// findNamed returns the requests that words name or quote, none where they do neither.
func (w work) findNamed() ([]string, error) {
	if w.RequestID == "" {
		if w.QuotedID == "" {
			return nil, nil
		}
		return w.findQuoted()
	}
	batch, err := w.tx.Batch(w.RequestID)
	if err != nil || len(batch) == 0 {
		return []string{w.RequestID}, err
	}
	var ids []string
	for _, r := range batch {
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// decideEach carries out a tap on the requests that it is about, and answers the tapper.
func (w work) decideEach(found targets) (InteractionResult, error) {
	if out, done, err := w.askTogether(found.ids); err != nil || done {
		return out, err
	}
	d := decisions{work: w, alone: len(found.ids) == 1}
	for _, id := range found.ids {
		more, err := d.decideOne(id)
		if err != nil || d.out.Ignored {
			return InteractionResult{Ignored: d.out.Ignored}, err
		}
		if !more {
			break
		}
	}
	refused := len(d.out.Decided) == 0 && len(d.out.Explained) == 0 && d.once == nil
	if !refused {
		d.out.Code = ""
	}
	if w.By.MayDecide() {
		d.lines = append(d.lines, w.besides(found)...)
	}
	d.out.Text = strings.Join(d.lines, "\n")
	if refused && w.Told {
		return d.out, nil
	}
	d.about.Text = d.out.Text
	switch {
	case d.once != nil:
		d.about.Note, d.about.BatchID = approval.ConfirmNote(w.Reason), ""
	case w.AsksWhy && d.note == "" && d.alone && len(d.out.Decided) > 0:
		d.about.Note = approval.NoteMore
	case w.AsksWhy || w.asks() && d.note != approval.NoteReason:
		d.about.Note = d.note
	}
	anew, err := w.cardsToShow(found.joined)
	if err != nil {
		return InteractionResult{}, err
	}
	return d.out, w.reply(d.about, anew)
}

// decisions is what became of the requests of one interaction, so far.
type decisions struct {
	work
	out   InteractionResult
	lines []string              // of the answer
	about approval.Notification // the answer
	note  approval.Note         // what it asks for
	alone bool                  // the interaction is about one request
	once  *approval.Request     // the one that is asked about once more
}

// decideOne carries out a tap on one request. more is false where what it found holds for the others too.
func (d *decisions) decideOne(id string) (more bool, err error) {
	before, err := d.tx.Request(id)
	switch {
	case err == nil:
		if done, err := d.beforeDeciding(before); err != nil || done {
			return true, err
		}
	case !errors.Is(err, approval.ErrNotFound):
		return false, err
	}
	r, refusal, err := d.in.Decide(approval.Decision{RequestID: id, Approve: d.Intent == IntentApprove,
		By: d.By, Via: approval.Via(d.Channel), Reason: d.Reason, Confirmed: d.confirmed})
	if err != nil {
		return false, err
	}
	if refusal != nil && refusal.Code == approval.CodeConfirmRequired {
		d.askOnce(before)
		return true, nil
	}
	if refusal != nil {
		d.out.Code = cmp.Or(d.out.Code, refusal.Code)
		line := d.refusal(refusal, id)
		switch refusal.Code {
		case approval.CodeNotAnApprover:
			if d.By.MayDecide() && !d.alone {
				line = d.sayOf(before, line)
			}
		case approval.CodeNotYourStage, approval.CodeAlreadyVoted:
			line = d.sayOf(before, line)
		}
		d.lines = append(d.lines, line)
		if refusal.Code == approval.CodeReasonRequired {
			d.note = approval.Note(d.Intent)
		}
		return d.By.MayDecide(), nil // who decides nothing is told so once for all of a batch
	}
	d.out.Decided = append(d.out.Decided, r)
	line, err := d.decidedLine(r)
	if err != nil {
		return false, err
	}
	d.lines = append(d.lines, line)
	if r.Status == approval.Denied && r.ResolveReason == "" && d.note == "" {
		d.note = approval.NoteReason
	}
	return true, d.outbox.MarkDelivered(d.tx, d.address(), r)
}

// beforeDeciding sees to what comes before a decision on r: a tap that is older than r means none of it, and a denial
// that comes once more with a reason gives the first one its reason. done says that nothing is to be decided.
func (d *decisions) beforeDeciding(r approval.Request) (done bool, err error) {
	d.about.ApprovalID = r.ID
	if d.RequestID != "" && d.RequestID == r.BatchID {
		d.about.BatchID, d.about.After, d.about.Shown = r.BatchID, d.Shows.After, d.Shows.Version
	}
	if !d.At.IsZero() && d.At.Before(r.RequestedAt) {
		d.out.Ignored = true
		return true, d.ignore("older_than_request")
	}
	if d.beginsReason(r) {
		d.lines, d.note = append(d.lines, d.say(phrases.SayDenied, "tool", d.nameCall(r))), approval.NoteReason
		return true, nil
	}
	if !d.givesReason(r) {
		return false, nil
	}
	ok, err := d.in.Explain(r, d.By, approval.Via(d.Channel), strings.TrimSpace(d.Reason))
	if err != nil || !ok {
		return false, err
	}
	d.out.Explained = append(d.out.Explained, r)
	d.lines = append(d.lines, d.say(phrases.SayReasonKept, "tool", r.Target()))
	return true, nil
}

// askTogether holds back a decision on several requests of which one needs a reason, where there is none:
// what is decided together is decided with one reason, or not at all. done is false where nothing is
// held back.
func (w work) askTogether(ids []string) (out InteractionResult, done bool, err error) {
	if len(ids) < 2 || !approval.Blank(w.Reason) || !w.By.MayDecide() {
		return out, false, nil
	}
	about := approval.Notification{After: w.Shows.After, Shown: w.Shows.Version}
	for _, id := range ids {
		r, err := w.in.Request(id)
		if errors.Is(err, approval.ErrNotFound) {
			continue
		}
		if err != nil {
			return out, false, err
		}
		if !w.At.IsZero() && w.At.Before(r.RequestedAt) {
			return out, false, nil
		}
		if r.Status != approval.Pending || !r.RequireReason || takesPasskey(w.Interaction, r) {
			continue
		}
		// What others decide holds nothing up: it is refused by itself.
		if may, err := w.in.Votes().MayVote(r, w.By); err != nil {
			return out, false, err
		} else if !may {
			continue
		}
		_, refusal, err := w.in.Decide(approval.Decision{RequestID: id, Approve: w.Intent == IntentApprove,
			By: w.By, Via: approval.Via(w.Channel)})
		if err != nil {
			return out, false, err
		}
		switch {
		case refusal == nil:
			return out, false, approval.Errorf(approval.CodeInternal, "a request that needs a reason was decided without one")
		case refusal.Code == approval.CodeStepUpRequired: // by the policy in force now
			continue
		case refusal.Code != approval.CodeReasonRequired:
			// the tapper's role was taken away just now: they are refused as any other
			return out, false, nil
		}
		if about.ApprovalID == "" {
			out.Code, out.Text = refusal.Code, w.refusal(refusal, cmp.Or(w.Shows.TypedID(w.RequestID), id))
			about.ApprovalID, about.BatchID = r.ID, r.BatchID
		}
	}
	if about.ApprovalID == "" {
		return out, false, nil
	}
	if w.Told {
		return out, true, nil
	}
	if about.Text = out.Text; w.asks() {
		about.Note = approval.Note(w.Intent)
	}
	return out, true, w.reply(about, nil)
}

// givesReason says that a denial comes once more from the person who denied r without a reason, and now has one.
func (t Interaction) givesReason(r approval.Request) bool {
	reason := strings.TrimSpace(t.Reason)
	return t.Intent == IntentDeny && t.By.MayDecide() && !approval.Blank(reason) && len(reason) <= approval.MaxReason &&
		r.Status == approval.Denied && r.ResolvedBy == t.By.Name && r.ResolveReason == ""
}

// beginsReason says that what a keyboard began for the reason of a denial was sent as it was: they are asked again.
func (t Interaction) beginsReason(r approval.Request) bool {
	return t.AsksWhy && t.Intent == IntentDeny && t.By.MayDecide() && approval.Blank(t.Reason) &&
		strings.HasSuffix(plain(strings.TrimSpace(t.Text)), ":") &&
		r.Status == approval.Denied && r.ResolvedBy == t.By.Name && r.ResolveReason == ""
}

// tooLate tells of a request that is over how it ended, and the person who typed a reason for its denial what becomes
// of that.
func (w wording) tooLate(r approval.Request) string {
	line := w.late(r)
	if w.Intent != IntentDeny || w.Text == "" || approval.Blank(w.Reason) || !w.By.MayDecide() {
		return line
	}
	if r.Status == approval.Denied && r.ResolvedBy == w.By.Name {
		return w.say(phrases.SayReasonKeptOld, "tool", r.Target())
	}
	return then(line, w.say(phrases.SayReasonLost))
}

// decidedLine tells what a decision came to: of a vote that was not the last, how far the request has come.
func (w work) decidedLine(r approval.Request) (string, error) {
	switch r.Status {
	case approval.Pending:
		st, err := w.in.Votes().Standing(r)
		return w.say(phrases.SayVoteCounts, "call", w.nameAction(r), "have", st.Total, "total", st.Needed,
			"stages", w.sayer(w.By).Waits(r)), err
	case approval.Approved:
		return w.say(phrases.SayApproved, "tool", w.nameAction(r)), nil
	}
	return w.say(phrases.SayDenied, "tool", w.nameAction(r)), nil
}

// refusal tells a tapper why nothing was decided, and how to do it where there is a way.
func (w wording) refusal(e *approval.Error, id string) string {
	switch e.Code {
	case approval.CodeNotFound:
		return w.say(phrases.SayNoRequest)
	case approval.CodeNotAnApprover:
		return w.notYours()
	case approval.CodeExpired, approval.CodeAlreadyResolved:
		return w.tooLate(*e.Request)
	case approval.CodeReasonRequired:
		tool := ""
		if r := e.Request; r != nil && r.ID == id {
			tool, id = r.Target(), id[len(id)-approval.ShortID:]
		} else if r != nil {
			tool = r.Target()
		}
		switch approves := w.Intent == IntentApprove; {
		case approves && w.asks():
			return w.say(phrases.SayReasonWhy, "tool", tool)
		case approves:
			return w.say(phrases.SayReasonAsked, "tool", tool, "id", id)
		case w.asks():
			return w.say(phrases.SayReasonNext, "tool", tool, "id", id)
		}
		return w.say(phrases.SayReasonNeeded, "word", w.word(w.Intent), "id", id)
	case approval.CodeInvalidParameter:
		return w.say(phrases.SayReasonTooLong)
	case approval.CodeAlreadyVoted:
		return w.sayVoted(e)
	case approval.CodeNotYourStage:
		if e.Request != nil {
			return w.say(phrases.SayNotYourStage, "stages", w.sayer(w.By).Waits(*e.Request))
		}
	case approval.CodeStepUpRequired:
		return w.takesPasskey(e)
	}
	return e.Message
}

// word is how the person who made the interaction types what they mean, in their language.
func (w wording) word(i Intent) string {
	switch i {
	case IntentApprove:
		return w.say(phrases.WordApprove)
	case IntentDeny:
		return w.say(phrases.WordDeny)
	case IntentShow:
		return w.say(phrases.WordShow)
	}
	return string(i)
}

// takesPasskey reports whether an interaction wants to approve what is approved on its page alone.
func takesPasskey(t Interaction, r approval.Request) bool {
	return t.Intent == IntentApprove && r.Need != nil && r.Need.StepUp
}

// takesPasskey tells a person where to approve a request that takes a passkey.
func (w wording) takesPasskey(e *approval.Error) string {
	if e.Request == nil {
		return e.Message
	}
	tool, page := e.Request.Target(), w.gate.PageOf(e.Request.ID)
	if page == "" {
		return w.say(phrases.SayStepUp, "tool", tool)
	}
	return w.say(phrases.SayStepUpAt, "tool", tool, "page", page)
}

// sayVoted tells a person that their vote is given: by them, or for them.
func (w wording) sayVoted(e *approval.Error) string {
	if e.Request == nil {
		return e.Message
	}
	for _, v := range e.Request.Votes {
		switch w.By.Name {
		case v.Person:
			return w.say(phrases.SayYouApproved, "when", v.At)
		case v.For:
			return w.say(phrases.SayVotedForYou, "who", v.Person, "when", v.At)
		}
	}
	return e.Message
}

// late tells who came too late which request it was, and how it ended.
func (w wording) late(r approval.Request) string {
	how := Late(approval.LateFor(r, w.By), w.say)
	if how == "" { // it is pending
		return ""
	}
	return w.sayOf(r, how)
}

// nameCall is how an answer says which request it is about: two calls of a tool are two requests. It has no word that
// an agent has written.
func (w wording) nameCall(r approval.Request) string {
	return w.say(phrases.SayCall, "tool", r.Target(), "agent", r.Agent, "id", r.ID[len(r.ID)-approval.ShortID:])
}

// mostAction is how much of what a request does stands in an answer, in characters.
const mostAction = 120

// innerQuotes are those of a text that stands in quotes itself, which it must not close: an agent's values are in it.
var innerQuotes = strings.NewReplacer("“", "‘", "”", "’")

func quoteAction(action string) string {
	return "“" + innerQuotes.Replace(legible.ShortenMiddle(action, mostAction, legible.UTF16Len)) + "”"
}

// nameAction is how the answer to a decision says what was decided: what the request does, as its card said, in quotes.
func (w wording) nameAction(r approval.Request) string {
	if w.summary == nil {
		return w.nameCall(r)
	}
	return w.say(phrases.SayCall, "tool", quoteAction(w.summary(w.By, r)), "agent", r.Agent,
		"id", r.ID[len(r.ID)-approval.ShortID:])
}

// sayOf puts which request an answer is about before it.
func (w wording) sayOf(r approval.Request, said string) string {
	return w.say(phrases.SayOf, "tool", w.nameCall(r), "said", said)
}

// notYours tells a person that they may not decide, and a stranger what is missing.
func (w wording) notYours() string {
	if w.By.Kind == approval.Stranger {
		return w.say(phrases.SayHelpStranger, "address", w.From)
	}
	return w.say(phrases.SayNotYours)
}

// refuse answers and audits words of a person who may not decide and named no request.
func (w work) refuse() (none targets, answer InteractionResult, err error) {
	e := approval.Event{Type: approval.EventDecisionRefused, Actor: w.By.String(), Decision: decisionWord(w.Intent),
		Reason: string(approval.CodeNotAnApprover)}
	e.Data = approval.EventData(map[string]any{"via": w.Channel})
	if err := w.audit.Append(w.ctx, w.tx, e); err != nil {
		return none, InteractionResult{}, err
	}
	answer = InteractionResult{Code: approval.CodeNotAnApprover, Text: w.notYours()}
	return none, answer, w.reply(approval.Notification{Text: answer.Text}, nil)
}

// findQuoted finds the requests shown by the message that the words quote.
func (w work) findQuoted() ([]string, error) {
	n, err := w.quotedRow()
	if err != nil || !n.ShowsCard() {
		return nil, err
	}
	rs, err := lists.ShownHeads(w.tx, n)
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	if err != nil {
		return nil, err
	}
	return narrow(w.tx, n, ids)
}

// quotedRow finds the notification whose message the words quote, the zero Notification for none.
func (w work) quotedRow() (approval.Notification, error) {
	ns, err := w.tx.Notifications(approval.NotificationQuery{Channel: w.Channel, MessageID: w.QuotedID, Limit: 1,
		Narrow: true})
	if err == nil && len(ns) == 0 {
		ns, err = w.findQuotedAmong()
	}
	if err != nil || len(ns) == 0 {
		return approval.Notification{}, err
	}
	return ns[0], nil
}

// How far back, and among how many messages to the same person, a quoted one is looked for that is not
// the first of its notification.
const (
	quotedSince = 7 * 24 * time.Hour
	quotedAmong = 200
)

// findQuotedAmong finds a quoted message that is not the first of its notification: a notification can be
// several messages, and all their ids are in its receipt.
func (w work) findQuotedAmong() ([]approval.Notification, error) {
	id, err := json.Marshal(w.QuotedID)
	if err != nil {
		return nil, err
	}
	ns, err := w.tx.Notifications(approval.NotificationQuery{Channel: w.Channel, Recipient: w.From, Several: true,
		Since: w.tx.Now().Add(-quotedSince), Limit: quotedAmong, Narrow: true})
	for _, n := range ns {
		if bytes.Contains(n.Receipt, id) {
			return []approval.Notification{n}, err
		}
	}
	return nil, err
}

// bareWord takes a yes or no that names no request. A bare yes never approves: it brings up the cards.
// A bare no denies only where there is exactly one request that it can mean.
func (w work) bareWord() (found targets, answer InteractionResult, err error) {
	list, err := w.waiting()
	if err != nil {
		return found, answer, err
	}
	pending, total := list.newest, list.total
	switch {
	case total == 0:
		answer.Text = w.waitingLine(list)
	case w.Intent == IntentDeny && total == 1 && !w.At.IsZero() && w.At.Before(pending[0].RequestedAt):
		answer.Text = w.say(phrases.SayNewerThanNo)
	case w.Intent == IntentDeny && total == 1:
		return targets{ids: []string{pending[0].ID}}, answer, nil
	case w.Intent == IntentDeny:
		answer.Text = w.say(phrases.SayWhichOne, "n", total)
	default:
		answer.Text = w.waitingLine(list)
	}
	return found, answer, w.reply(approval.Notification{Text: answer.Text}, pending)
}

// linkNote is for an answer that says that something is in another place.
func (t Interaction) linkNote() approval.Note {
	if !t.Elsewhere || t.Messages == "" {
		return ""
	}
	return approval.LinkNote(t.Messages)
}

// reply queues the answer to a tapper, with the cards of some requests. Where a channel cannot put
// several cards into one message each goes as its own, so that each can be edited later. Of n the text,
// what it is about and its note are taken.
func (w work) reply(n approval.Notification, cards []approval.Head) error {
	n.Channel, n.Recipient, n.Kind, n.ReplyTo = w.Channel, w.From, approval.KindReply, w.ReplyTo
	n.Language = w.language
	closed, err := w.closes(n)
	if err != nil {
		return err
	}
	if closed != "" {
		n.Text = strings.TrimPrefix(n.Text+"\n"+closed, "\n")
	}
	if w.By.Kind == approval.Stranger {
		n.Note = approval.NoteStranger
	}
	if w.OneReply {
		for _, r := range cards {
			n.Cards = append(n.Cards, r.ID)
		}
		if len(cards) == 1 && n.ApprovalID == "" {
			n.ApprovalID = cards[0].ID
		}
		return w.outbox.Queue(w.tx, n)
	}
	if w.AnswerAt != "" && n.Note == "" {
		n.Recipient = w.AnswerAt
	}
	if len(cards) > 0 {
		n.Note = cmp.Or(n.Note, w.linkNote())
	}
	if err := w.outbox.Queue(w.tx, n); err != nil {
		return err
	}
	for _, r := range cards {
		c := approval.Notification{ApprovalID: r.ID, Channel: w.Channel, Recipient: w.From, Kind: approval.KindReply,
			Cards: []string{r.ID}, Language: w.language}
		if err := w.outbox.Queue(w.tx, c); err != nil {
			return err
		}
	}
	return nil
}

// welcome greets a person who added us. One we know is reached again; a stranger is told the id
// that the configuration needs.
func (w work) welcome() (InteractionResult, error) {
	if err := w.outbox.MarkReachable(w.ctx, w.tx, w.By, w.address(), w.when(w.tx)); err != nil {
		return InteractionResult{}, err
	}
	out := InteractionResult{Text: w.say(phrases.SayWelcome, "address", w.From)}
	if w.By.Kind == approval.Human {
		out.Text = w.say(phrases.SayWelcomeBack, "who", w.By.Name)
	}
	return out, w.reply(approval.Notification{Text: out.Text}, nil)
}
