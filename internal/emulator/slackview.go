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

// SlackViews are the modals and Home tabs of a workspace.
type SlackViews struct {
	e     *Emulator
	slack *Slack

	// Guarded by the Emulator's lock.
	views []*SlackView
	homes map[string]*SlackView // by Slack user id
}

// slackMaxStack is how many modals may lie on one another.
const slackMaxStack = 3

// All returns all modals, oldest first.
func (vs *SlackViews) All() []SlackView {
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	var all []SlackView
	for _, v := range vs.views {
		all = append(all, *v)
	}
	return all
}

// Top returns the modal that a person sees now: of several on one another, the topmost.
func (vs *SlackViews) Top(person string) (SlackView, bool) {
	p, err := vs.slack.person(person)
	if err != nil {
		return SlackView{}, false
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	if stack := vs.stack(p.Slack); len(stack) > 0 {
		return *stack[len(stack)-1], true
	}
	return SlackView{}, false
}

// Wait waits until a person sees a modal, which may open after the tap that asked for it was answered.
func (vs *SlackViews) Wait(ctx context.Context, person string) (SlackView, error) {
	var v SlackView
	err := vs.e.WaitFor(ctx, func() (open bool) {
		v, open = vs.Top(person)
		return open
	})
	return v, err
}

// Home returns a person's Home tab; false before it was published.
func (vs *SlackViews) Home(person string) (SlackView, bool) {
	p, err := vs.slack.person(person)
	if err != nil {
		return SlackView{}, false
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	if v := vs.homes[p.Slack]; v != nil {
		return *v, true
	}
	return SlackView{}, false
}

// stack returns the modals that are open for a user, the topmost last. The caller holds the lock.
func (vs *SlackViews) stack(user string) (open []*SlackView) {
	for _, v := range vs.views {
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
		a := slackFail(code, explain(messages))
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

func (vs *SlackViews) open(_ *Call, args url.Values) answer {
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	t, code := vs.slack.exchange(args.Get("trigger_id"))
	if code != "" {
		return slackFail(code)
	}
	view, raw, bad := slackViewArg(args, checkModal)
	if bad != nil {
		return *bad
	}
	if vs.find("", str(view["external_id"])) != nil {
		return slackFail("duplicate_external_id")
	}
	t.used = true
	for _, v := range vs.stack(t.user) { // one stack at a time: what another press opens replaces it
		v.Open = false
	}
	v := vs.add(t.user, nil, view, raw)
	v.opens = args.Get("trigger_id")
	return slackOK(map[string]any{"view": vs.json(v, nil)})
}

// push is views.push: one more modal on top, with the trigger of something done in the one below.
func (vs *SlackViews) push(_ *Call, args url.Values) answer {
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	t, code := vs.slack.exchange(args.Get("trigger_id"))
	if code != "" {
		return slackFail(code)
	}
	stack := vs.stack(t.user)
	below := vs.find(t.view, "")
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
	if vs.find("", str(view["external_id"])) != nil {
		return slackFail("duplicate_external_id")
	}
	t.used = true
	v := vs.add(t.user, stack[len(stack)-1], view, raw)
	v.opens = args.Get("trigger_id")
	return slackOK(map[string]any{"view": vs.json(v, nil)})
}

// publish is views.publish: it makes or changes somebody's Home tab.
func (vs *SlackViews) publish(_ *Call, args url.Values) answer {
	if vs.slack.cfg.HomeOff {
		return slackFail("not_enabled")
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	user := args.Get("user_id")
	if p, err := vs.e.person(user); err != nil || p.Slack != user {
		return slackFail("invalid_arguments", explain([]string{"[ERROR] invalid `user_id`"}))
	}
	view, raw, bad := slackViewArg(args, checkHome)
	if bad != nil {
		return *bad
	}
	v := vs.homes[user]
	if hash := args.Get("hash"); hash != "" && (v == nil || v.Hash != hash) {
		return slackFail("hash_conflict")
	}
	if other := vs.find("", str(view["external_id"])); other != nil && other != v {
		return slackFail("duplicate_external_id")
	}
	if v == nil {
		id := fmt.Sprintf("V0SANDBOX%03d", vs.e.next())
		v = &SlackView{ID: id, Root: id, User: user, Home: true, Open: true}
		vs.homes[user] = v
	} else {
		v.Updates++
	}
	vs.set(v, view, raw)
	return slackOK(map[string]any{"view": vs.json(v, nil)})
}

func (vs *SlackViews) update(_ *Call, args url.Values) answer {
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	v := vs.find(args.Get("view_id"), args.Get("external_id"))
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
	if other := vs.find("", str(view["external_id"])); other != nil && other != v {
		return slackFail("duplicate_external_id")
	}
	v.Updates++
	vs.set(v, view, raw)
	return slackOK(map[string]any{"view": vs.json(v, nil)})
}

// find finds an open modal or a Home tab by its id or its external id. The caller holds the lock.
func (vs *SlackViews) find(id, external string) *SlackView {
	match := func(v *SlackView) bool {
		return v.Open && (id != "" && v.ID == id || external != "" && v.External == external)
	}
	for _, v := range vs.views {
		if match(v) {
			return v
		}
	}
	for _, v := range vs.homes {
		if match(v) {
			return v
		}
	}
	return nil
}

// add opens a modal, on top of another one unless below is nil. The caller holds the lock.
func (vs *SlackViews) add(user string, below *SlackView, view map[string]any, raw json.RawMessage) *SlackView {
	v := &SlackView{ID: fmt.Sprintf("V0SANDBOX%03d", vs.e.next()), User: user, Open: true}
	v.Root = v.ID
	if below != nil {
		v.Root, v.Previous = below.Root, below.ID
	}
	vs.views = append(vs.views, v)
	vs.set(v, view, raw)
	return v
}

// set gives a view its content and a new hash. The caller holds the lock.
func (vs *SlackViews) set(v *SlackView, view map[string]any, raw json.RawMessage) {
	blocks, _ := view["blocks"].([]any)
	view["blocks"] = vs.slack.dressBlocks(mustJSON(blocks))
	v.JSON, v.shown, v.Errors, v.External = raw, view, nil, str(view["external_id"])
	v.Hash = fmt.Sprintf("%d.%s", vs.e.now().Unix(), randomHex(4))
	vs.e.bump()
}

// json is a view as Slack describes it, with the values typed in so far.
func (vs *SlackViews) json(v *SlackView, values Object) Object {
	o := Object{"private_metadata": "", "callback_id": "", "external_id": "", "clear_on_close": false,
		"notify_on_close": false, "previous_view_id": nil}
	maps.Copy(o, v.shown)
	if values == nil {
		values = Object{}
	}
	if v.Previous != "" {
		o["previous_view_id"] = v.Previous
	}
	o["id"], o["hash"], o["team_id"], o["app_id"], o["bot_id"] = v.ID, v.Hash, vs.slack.cfg.TeamID, vs.slack.cfg.AppID,
		vs.slack.cfg.BotID
	o["state"] = Object{"values": values}
	o["root_view_id"] = v.Root
	if v.Home {
		o["app_installed_team_id"] = vs.slack.cfg.TeamID
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

// Submission builds the payload of submitting a modal. values are what was typed, by block_id and action_id; a
// text field that is not among them was left as it began.
func (vs *SlackViews) Submission(person, viewID string, values map[string]map[string]string) (Object, error) {
	p, err := vs.slack.person(person)
	if err != nil {
		return nil, err
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	v := vs.find(viewID, "")
	if v == nil || v.User != p.Slack || v.Home {
		return nil, fmt.Errorf("emulator: %s has no open modal %q", p.Name, viewID)
	}
	return vs.slack.interaction("view_submission", p).
		With("trigger_id", vs.slack.newTrigger(p, v.ID)).With("view", vs.json(v, v.inputs(values))).With("response_urls",
		[]any{}), nil
}

// Submit presses a modal's submit button. An empty viewID means the modal that this person sees. The answer
// decides, as on Slack, whether the modal closes, changes, gets another one on top, or shows errors (they are in the
// view's Errors, and in the Delivery's Body).
func (vs *SlackViews) Submit(ctx context.Context, person, viewID string,
	values map[string]map[string]string) (Delivery, error) {
	if viewID == "" {
		v, _ := vs.Top(person)
		viewID = v.ID
	}
	payload, err := vs.Submission(person, viewID, values)
	if err != nil {
		return Delivery{}, err
	}
	d, err := vs.slack.Post(ctx, SlackPost{Payload: payload})
	if err != nil || d.Status != http.StatusOK {
		return d, err
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	if v := vs.find(viewID, ""); v != nil {
		vs.submit(v, d.Body)
	}
	return d, nil
}

// submit does what a submission was answered. The caller holds the lock.
func (vs *SlackViews) submit(v *SlackView, body []byte) {
	defer vs.e.bump()
	wrong := func(detail string) {
		vs.e.violate(&Call{Platform: "slack", Endpoint: "view_submission's answer"}, "schema", detail)
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
			vs.set(v, view, raw)
		case len(vs.stack(v.User)) >= slackMaxStack:
			wrong("push_limit_reached")
		default:
			vs.add(v.User, v, view, raw)
		}
	case "clear":
		for _, other := range vs.stack(v.User) {
			other.Open = false
		}
	default:
		v.Open = false
	}
}

// Close dismisses a modal; an empty viewID means the one that this person sees. What lies under it is seen again,
// unless it was to clear everything. The app hears of it only when the modal asked for that with notify_on_close.
func (vs *SlackViews) Close(ctx context.Context, person, viewID string) (Delivery, error) {
	p, err := vs.slack.person(person)
	if err != nil {
		return Delivery{}, err
	}
	if viewID == "" {
		v, _ := vs.Top(person)
		viewID = v.ID
	}
	vs.e.mu.Lock()
	v := vs.find(viewID, "")
	if v == nil || v.User != p.Slack || v.Home {
		vs.e.mu.Unlock()
		return Delivery{}, fmt.Errorf("emulator: %s has no open modal", p.Name)
	}
	all, _ := v.shown["clear_on_close"].(bool)
	for _, other := range vs.stack(p.Slack) {
		other.Open = other.Open && other != v && !all
	}
	vs.e.bump()
	notify, _ := v.shown["notify_on_close"].(bool)
	payload := vs.slack.interaction("view_closed", p).With("view", vs.json(v, v.inputs(nil))).With("is_cleared", all)
	vs.e.mu.Unlock()
	if !notify {
		return Delivery{Platform: "slack"}, nil
	}
	return vs.slack.Post(ctx, SlackPost{Payload: payload})
}

// Actions builds the payload of pressing a button in a Home tab or a modal, whether or not the view still has
// it. Unlike a press in a message it names no channel and no message, and has no response_url.
func (vs *SlackViews) Actions(person, viewID, actionID, value string) (Object, error) {
	p, err := vs.slack.person(person)
	if err != nil {
		return nil, err
	}
	vs.e.mu.Lock()
	defer vs.e.mu.Unlock()
	v := vs.find(viewID, "")
	if v == nil || v.User != p.Slack {
		return nil, fmt.Errorf("emulator: %s has no view %q", p.Name, viewID)
	}
	blocks, _ := v.shown["blocks"].([]any)
	return vs.slack.interaction("block_actions", p).
		With("container", Object{"type": "view", "view_id": v.ID}).
		With("trigger_id", vs.slack.newTrigger(p, v.ID)).
		With("view", vs.json(v, v.inputs(nil))).
		With("actions", []any{vs.slack.actionOf(blocks, actionID, value)}), nil
}

// TapHome presses a button of the person's Home tab; an empty value means any value.
func (vs *SlackViews) TapHome(ctx context.Context, person, actionID, value string) (Delivery, error) {
	v, ok := vs.Home(person)
	if !ok {
		return Delivery{}, fmt.Errorf("emulator: nothing was published in %s's Home tab", person)
	}
	return vs.press(ctx, person, v, actionID, value)
}

// Tap presses a button inside the modal that the person sees; an empty value means any value.
func (vs *SlackViews) Tap(ctx context.Context, person, actionID, value string) (Delivery, error) {
	v, ok := vs.Top(person)
	if !ok {
		return Delivery{}, fmt.Errorf("emulator: %s has no open modal", person)
	}
	return vs.press(ctx, person, v, actionID, value)
}

func (vs *SlackViews) press(ctx context.Context, person string, v SlackView, actionID, value string) (Delivery, error) {
	blocks, _ := v.shown["blocks"].([]any)
	_, button := findButton(blocks, actionID, value)
	if button == nil {
		return Delivery{}, fmt.Errorf("emulator: %w in the view: %q", errNoButton, actionID)
	}
	payload, err := vs.Actions(person, v.ID, actionID, str(button["value"]))
	if err != nil {
		return Delivery{}, err
	}
	return vs.slack.Post(ctx, SlackPost{Payload: payload})
}

// HomeOpened builds the event of opening a tab ("home" or "messages") of the app's Home, in its envelope.
func (vs *SlackViews) HomeOpened(person, tab string) (Object, error) {
	p, err := vs.slack.person(person)
	if err != nil {
		return nil, err
	}
	vs.e.mu.Lock()
	event := Object{"type": "app_home_opened", "user": p.Slack, "channel": vs.slack.conversation(p.Slack).ID, "tab": tab,
		"event_ts": vs.slack.stamp()}
	if v := vs.homes[p.Slack]; v != nil && tab == "home" {
		event["view"] = vs.json(v, v.inputs(nil))
	}
	vs.e.mu.Unlock()
	return vs.slack.Event(event), nil
}

// OpenHome opens the person's Home tab, which sends an app_home_opened event: with the view, once one was published.
func (vs *SlackViews) OpenHome(ctx context.Context, person string) (Delivery, error) {
	if vs.slack.cfg.HomeOff {
		return Delivery{}, errors.New("emulator: the Home tab is switched off")
	}
	event, err := vs.HomeOpened(person, "home")
	if err != nil {
		return Delivery{}, err
	}
	return vs.slack.Post(ctx, SlackPost{Event: event})
}
