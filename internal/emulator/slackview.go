package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// SlackView is a modal, or somebody's Home tab.
type SlackView struct {
	ID       string
	User     string // who sees it
	Home     bool
	Open     bool // a modal may be open and lie under another; a Home tab always is
	Hash     string
	External string
	Root     string            // the id of the modal at the bottom of its stack
	Previous string            // the id of the modal under it; empty: none
	JSON     json.RawMessage   // as sent, in its present form
	Errors   map[string]string // what the last submission was answered, by block_id
	Updates  int

	shown map[string]any
	opens string // the trigger id that opened it
}

// slackMaxStack is how many modals may lie on one another.
const slackMaxStack = 3

// Views returns all modals, oldest first.
func (s *Emulator) Views() []SlackView {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []SlackView
	for _, v := range s.slack.views {
		all = append(all, *v)
	}
	return all
}

// OpenView returns the modal that a person sees now: of several on one another, the topmost.
func (s *Emulator) OpenView(person string) (SlackView, bool) {
	p, err := s.slackPerson(person)
	if err != nil {
		return SlackView{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stack := s.stack(p.Slack); len(stack) > 0 {
		return *stack[len(stack)-1], true
	}
	return SlackView{}, false
}

// WaitView waits until a person sees a modal, which may open after the tap that asked for it was answered.
func (s *Emulator) WaitView(ctx context.Context, person string) (SlackView, error) {
	var v SlackView
	err := s.WaitFor(ctx, func() (open bool) {
		v, open = s.OpenView(person)
		return open
	})
	return v, err
}

// SlackHome returns a person's Home tab; false before it was published.
func (s *Emulator) SlackHome(person string) (SlackView, bool) {
	p, err := s.slackPerson(person)
	if err != nil {
		return SlackView{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.slack.homes[p.Slack]; v != nil {
		return *v, true
	}
	return SlackView{}, false
}

// stack returns the modals that are open for a user, the topmost last. The caller holds s.mu.
func (s *Emulator) stack(user string) (open []*SlackView) {
	for _, v := range s.slack.views {
		if v.Open && v.User == user {
			open = append(open, v)
		}
	}
	return open
}

// slackViewArg reads and checks the view of a request.
func slackViewArg(args url.Values, check func(view any) *checker) (map[string]any, json.RawMessage, *answer) {
	raw := []byte(args.Get("view"))
	refuse := func(code string, messages ...string) (map[string]any, json.RawMessage, *answer) {
		a := slackFail(code, explained(messages))
		return nil, nil, &a
	}
	if len(raw) > slackMaxView {
		return refuse("view_too_large")
	}
	view, err := parseObject(raw)
	if err != nil {
		return refuse("invalid_arguments", "[ERROR] must provide a valid view object")
	}
	if problems := check(view).problems; len(problems) > 0 {
		return refuse("invalid_arguments", blockMessages(problems)...)
	}
	return view, raw, nil
}

// exchange looks at the trigger that a modal is asked for with. code is empty when it is good. The caller holds s.mu.
func (s *Emulator) exchange(id string) (t *trigger, code string) {
	t = s.slack.triggers[id]
	switch {
	case t == nil:
		return nil, "invalid_trigger_id"
	case t.used:
		return nil, "exchanged_trigger_id"
	case s.now().Sub(t.at) > triggerLife:
		return nil, "expired_trigger_id"
	}
	return t, ""
}

func (s *Emulator) slackViewsOpen(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, code := s.exchange(args.Get("trigger_id"))
	if code != "" {
		return slackFail(code)
	}
	view, raw, bad := slackViewArg(args, checkModal)
	if bad != nil {
		return *bad
	}
	if s.findView("", str(view["external_id"])) != nil {
		return slackFail("duplicate_external_id")
	}
	t.used = true
	for _, v := range s.stack(t.user) { // one stack at a time: what another press opens replaces it
		v.Open = false
	}
	v := s.addView(t.user, nil, view, raw)
	v.opens = args.Get("trigger_id")
	return slackOK(map[string]any{"view": s.viewJSON(v, nil)})
}

// slackViewsPush is views.push: one more modal on top, with the trigger of something done in the one below.
func (s *Emulator) slackViewsPush(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, code := s.exchange(args.Get("trigger_id"))
	if code != "" {
		return slackFail(code)
	}
	stack := s.stack(t.user)
	below := s.findView(t.view, "")
	switch {
	case below == nil || below.Home:
		return slackFail("invalid_trigger_id")
	case len(stack) >= slackMaxStack:
		return slackFail("push_limit_reached")
	}
	view, raw, bad := slackViewArg(args, checkModal)
	if bad != nil {
		return *bad
	}
	if s.findView("", str(view["external_id"])) != nil {
		return slackFail("duplicate_external_id")
	}
	t.used = true
	v := s.addView(t.user, stack[len(stack)-1], view, raw)
	v.opens = args.Get("trigger_id")
	return slackOK(map[string]any{"view": s.viewJSON(v, nil)})
}

// slackViewsPublish is views.publish: it makes or changes somebody's Home tab.
func (s *Emulator) slackViewsPublish(_ *Call, args url.Values) answer {
	if s.cfg.Slack.HomeOff {
		return slackFail("not_enabled")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	user := args.Get("user_id")
	if p, err := s.person(user); err != nil || p.Slack != user {
		return slackFail("invalid_arguments", explained([]string{"[ERROR] invalid `user_id`"}))
	}
	view, raw, bad := slackViewArg(args, checkHome)
	if bad != nil {
		return *bad
	}
	v := s.slack.homes[user]
	if hash := args.Get("hash"); hash != "" && (v == nil || v.Hash != hash) {
		return slackFail("hash_conflict")
	}
	if other := s.findView("", str(view["external_id"])); other != nil && other != v {
		return slackFail("duplicate_external_id")
	}
	if v == nil {
		id := fmt.Sprintf("V0SANDBOX%03d", s.next())
		v = &SlackView{ID: id, Root: id, User: user, Home: true, Open: true}
		s.slack.homes[user] = v
	} else {
		v.Updates++
	}
	s.setView(v, view, raw)
	return slackOK(map[string]any{"view": s.viewJSON(v, nil)})
}

func (s *Emulator) slackViewsUpdate(_ *Call, args url.Values) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.findView(args.Get("view_id"), args.Get("external_id"))
	switch {
	case v == nil:
		return slackFail("not_found")
	case args.Get("hash") != "" && args.Get("hash") != v.Hash:
		return slackFail("hash_conflict")
	}
	check := checkModal
	if v.Home {
		check = checkHome
	}
	view, raw, bad := slackViewArg(args, check)
	if bad != nil {
		return *bad
	}
	if other := s.findView("", str(view["external_id"])); other != nil && other != v {
		return slackFail("duplicate_external_id")
	}
	v.Updates++
	s.setView(v, view, raw)
	return slackOK(map[string]any{"view": s.viewJSON(v, nil)})
}

// findView finds an open modal or a Home tab by its id or its external id. The caller holds s.mu.
func (s *Emulator) findView(id, external string) *SlackView {
	match := func(v *SlackView) bool {
		return v.Open && (id != "" && v.ID == id || external != "" && v.External == external)
	}
	for _, v := range s.slack.views {
		if match(v) {
			return v
		}
	}
	for _, v := range s.slack.homes {
		if match(v) {
			return v
		}
	}
	return nil
}

// addView opens a modal, on top of another one unless below is nil. The caller holds s.mu.
func (s *Emulator) addView(user string, below *SlackView, view map[string]any, raw json.RawMessage) *SlackView {
	v := &SlackView{ID: fmt.Sprintf("V0SANDBOX%03d", s.next()), User: user, Open: true}
	v.Root = v.ID
	if below != nil {
		v.Root, v.Previous = below.Root, below.ID
	}
	s.slack.views = append(s.slack.views, v)
	s.setView(v, view, raw)
	return v
}

// setView gives a view its content and a new hash. The caller holds s.mu.
func (s *Emulator) setView(v *SlackView, view map[string]any, raw json.RawMessage) {
	blocks, _ := view["blocks"].([]any)
	view["blocks"] = s.dressBlocks(mustJSON(blocks))
	v.JSON, v.shown, v.Errors, v.External = raw, view, nil, str(view["external_id"])
	v.Hash = fmt.Sprintf("%d.%s", s.now().Unix(), randomHex(4))
	s.bump()
}

// viewJSON is a view as Slack describes it, with the values typed in so far.
func (s *Emulator) viewJSON(v *SlackView, values Object) Object {
	o := Object{"private_metadata": "", "callback_id": "", "external_id": "", "clear_on_close": false,
		"notify_on_close": false, "previous_view_id": nil}
	maps.Copy(o, v.shown)
	if values == nil {
		values = Object{}
	}
	if v.Previous != "" {
		o["previous_view_id"] = v.Previous
	}
	o["id"], o["hash"], o["team_id"], o["app_id"], o["bot_id"] = v.ID, v.Hash, s.cfg.Slack.TeamID, s.cfg.Slack.AppID,
		s.cfg.Slack.BotID
	o["state"] = Object{"values": values}
	o["root_view_id"] = v.Root
	if v.Home {
		o["app_installed_team_id"] = s.cfg.Slack.TeamID
	}
	return o
}

// inputs returns the values of a view's inputs: what was typed, or what they began with.
func (v *SlackView) inputs(typed map[string]map[string]string) Object {
	values := Object{}
	blocks, _ := v.shown["blocks"].([]any)
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		if str(block["type"]) != "input" {
			continue
		}
		blockID := str(block["block_id"])
		for _, e := range slackElements(block) {
			values[blockID] = Object{str(e["action_id"]): inputValue(e, typed[blockID])}
		}
	}
	return values
}

// inputValue is an input's value as Slack reports it.
func inputValue(element map[string]any, values map[string]string) Object {
	value, given := values[str(element["action_id"])]
	kind := str(element["type"])
	o := Object{"type": kind}
	if kind == "plain_text_input" {
		if !given {
			value = str(element["initial_value"])
		}
		o["value"] = nil
		if value != "" {
			o["value"] = value
		}
		return o
	}
	var chosen []any
	options, _ := element["options"].([]any)
	for _, option := range options {
		if object, _ := option.(map[string]any); given && slices.Contains(strings.Split(value, ","), str(object["value"])) {
			chosen = append(chosen, option)
		}
	}
	if !given {
		chosen, _ = element["initial_options"].([]any)
		if option := element["initial_option"]; option != nil {
			chosen = []any{option}
		}
	}
	if kind == "checkboxes" {
		o["selected_options"] = append([]any{}, chosen...)
		return o
	}
	o["selected_option"] = nil
	if len(chosen) > 0 {
		o["selected_option"] = chosen[0]
	}
	return o
}

// SlackViewSubmission builds the payload of submitting a modal. values are what was typed, by block_id and action_id; a
// text field that is not among them was left as it began.
func (s *Emulator) SlackViewSubmission(person, viewID string, values map[string]map[string]string) (Object, error) {
	p, err := s.slackPerson(person)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.findView(viewID, "")
	if v == nil || v.User != p.Slack || v.Home {
		return nil, fmt.Errorf("emulator: %s has no open modal %q", p.Name, viewID)
	}
	return s.interaction("view_submission", p).
		With("trigger_id", s.newTrigger(p, v.ID)).With("view", s.viewJSON(v, v.inputs(values))).With("response_urls",
		[]any{}), nil
}

// SubmitView presses a modal's submit button. An empty viewID means the modal that this person sees. The answer
// decides, as on Slack, whether the modal closes, changes, gets another one on top, or shows errors (they are in the
// view's Errors, and in the Delivery's Body).
func (s *Emulator) SubmitView(ctx context.Context, person, viewID string,
	values map[string]map[string]string) (Delivery, error) {
	if viewID == "" {
		v, _ := s.OpenView(person)
		viewID = v.ID
	}
	payload, err := s.SlackViewSubmission(person, viewID, values)
	if err != nil {
		return Delivery{}, err
	}
	d, err := s.PostSlack(ctx, SlackPost{Payload: payload})
	if err != nil || d.Status != http.StatusOK {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.findView(viewID, ""); v != nil {
		s.submitted(v, d.Body)
	}
	return d, nil
}

// submitted does what a submission was answered. The caller holds s.mu.
func (s *Emulator) submitted(v *SlackView, body []byte) {
	defer s.bump()
	wrong := func(detail string) {
		s.violate(&Call{Platform: "slack", Endpoint: "view_submission's answer"}, "schema", detail)
	}
	var reply struct {
		Action string            `json:"response_action"`
		View   json.RawMessage   `json:"view"`
		Errors map[string]string `json:"errors"`
	}
	if len(body) > 0 {
		_ = json.Unmarshal(body, &reply) // what is not JSON closes the modal, as an empty body does
	}
	v.Errors = nil
	switch reply.Action {
	case "errors":
		inputs := v.inputs(nil)
		for block := range reply.Errors {
			if inputs[block] == nil {
				wrong("errors name " + block + ", which is no input block of this modal")
			}
		}
		if len(reply.Errors) == 0 {
			wrong("errors without one")
		}
		v.Errors = reply.Errors
	case "update", "push":
		view, raw, bad := slackViewArg(url.Values{"view": {string(reply.View)}}, checkModal)
		switch {
		case bad != nil:
			wrong(string(bad.body))
		case reply.Action == "update":
			v.Updates++
			s.setView(v, view, raw)
		case len(s.stack(v.User)) >= slackMaxStack:
			wrong("push_limit_reached")
		default:
			s.addView(v.User, v, view, raw)
		}
	case "clear":
		for _, other := range s.stack(v.User) {
			other.Open = false
		}
	default:
		v.Open = false
	}
}

// CloseView dismisses a modal; an empty viewID means the one that this person sees. What lies under it is seen again,
// unless it was to clear everything. The app hears of it only when the modal asked for that with notify_on_close.
func (s *Emulator) CloseView(ctx context.Context, person, viewID string) (Delivery, error) {
	p, err := s.slackPerson(person)
	if err != nil {
		return Delivery{}, err
	}
	if viewID == "" {
		v, _ := s.OpenView(person)
		viewID = v.ID
	}
	s.mu.Lock()
	v := s.findView(viewID, "")
	if v == nil || v.User != p.Slack || v.Home {
		s.mu.Unlock()
		return Delivery{}, fmt.Errorf("emulator: %s has no open modal", p.Name)
	}
	all, _ := v.shown["clear_on_close"].(bool)
	for _, other := range s.stack(p.Slack) {
		other.Open = other.Open && other != v && !all
	}
	s.bump()
	notify, _ := v.shown["notify_on_close"].(bool)
	payload := s.interaction("view_closed", p).With("view", s.viewJSON(v, v.inputs(nil))).With("is_cleared", all)
	s.mu.Unlock()
	if !notify {
		return Delivery{Platform: "slack"}, nil
	}
	return s.PostSlack(ctx, SlackPost{Payload: payload})
}

// SlackViewActions builds the payload of pressing a button in a Home tab or a modal, whether or not the view still has
// it. Unlike a press in a message it names no channel and no message, and has no response_url.
func (s *Emulator) SlackViewActions(person, viewID, actionID, value string) (Object, error) {
	p, err := s.slackPerson(person)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.findView(viewID, "")
	if v == nil || v.User != p.Slack {
		return nil, fmt.Errorf("emulator: %s has no view %q", p.Name, viewID)
	}
	blocks, _ := v.shown["blocks"].([]any)
	return s.interaction("block_actions", p).
		With("container", Object{"type": "view", "view_id": v.ID}).
		With("trigger_id", s.newTrigger(p, v.ID)).
		With("view", s.viewJSON(v, v.inputs(nil))).
		With("actions", []any{s.pressed(blocks, actionID, value)}), nil
}

// TapHome presses a button of the person's Home tab; an empty value means any value.
func (s *Emulator) TapHome(ctx context.Context, person, actionID, value string) (Delivery, error) {
	v, ok := s.SlackHome(person)
	if !ok {
		return Delivery{}, fmt.Errorf("emulator: nothing was published in %s's Home tab", person)
	}
	return s.tapView(ctx, person, v, actionID, value)
}

// TapView presses a button inside the modal that the person sees; an empty value means any value.
func (s *Emulator) TapView(ctx context.Context, person, actionID, value string) (Delivery, error) {
	v, ok := s.OpenView(person)
	if !ok {
		return Delivery{}, fmt.Errorf("emulator: %s has no open modal", person)
	}
	return s.tapView(ctx, person, v, actionID, value)
}

func (s *Emulator) tapView(ctx context.Context, person string, v SlackView, actionID, value string) (Delivery, error) {
	blocks, _ := v.shown["blocks"].([]any)
	_, button := findButton(blocks, actionID, value)
	if button == nil {
		return Delivery{}, fmt.Errorf("emulator: %w in the view: %q", errNoButton, actionID)
	}
	payload, err := s.SlackViewActions(person, v.ID, actionID, str(button["value"]))
	if err != nil {
		return Delivery{}, err
	}
	return s.PostSlack(ctx, SlackPost{Payload: payload})
}

// SlackHomeOpened builds the event of opening a tab ("home" or "messages") of the app's Home, in its envelope.
func (s *Emulator) SlackHomeOpened(person, tab string) (Object, error) {
	p, err := s.slackPerson(person)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	event := Object{"type": "app_home_opened", "user": p.Slack, "channel": s.conversation(p.Slack).ID, "tab": tab,
		"event_ts": s.stamp()}
	if v := s.slack.homes[p.Slack]; v != nil && tab == "home" {
		event["view"] = s.viewJSON(v, v.inputs(nil))
	}
	s.mu.Unlock()
	return s.SlackEvent(event), nil
}

// OpenHome opens the person's Home tab, which sends an app_home_opened event: with the view, once one was published.
func (s *Emulator) OpenHome(ctx context.Context, person string) (Delivery, error) {
	if s.cfg.Slack.HomeOff {
		return Delivery{}, errors.New("emulator: the Home tab is switched off")
	}
	event, err := s.SlackHomeOpened(person, "home")
	if err != nil {
		return Delivery{}, err
	}
	return s.PostSlack(ctx, SlackPost{Event: event})
}
