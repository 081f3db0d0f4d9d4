package campaign_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// room is the channel in Slack where all cards stand.
const room = "C0APPROVALS"

// agentNames and peopleNames are who there is. leo is not in the setting "fewer"; mio is an admin and no approver.
var (
	agentNames  = []string{"a1", "a2", "a3"}
	peopleNames = []string{"hana", "ken", "mei", "rio", "leo", "mio"}
)

func token(name string) string { return "test-token-of-" + name + "-in-the-campaign" }

func lineID(name string) string { return "U" + fmt.Sprintf("%032x", []byte(name)) }

func slackID(name string) string { return "U0" + strings.ToUpper(name) }

// configText is the gate's configuration under a setting, of which the model's is [settings].
func configText(p plan, setting string) string {
	leo, notify, move := `
  - {name: leo, roles: [approver], line: `+lineID("leo")+`, token: `+token("leo")+`}`, "hana, mei, rio, leo", ""
	if setting == "fewer" {
		leo, notify, move = "", "hana, mei, rio", ", approvals: [{count: 2}]"
	}
	store := "sqlite:${STORE}"
	if p.on.open != nil {
		store = "${STORE}\nreplicas: {secret: the-secret-of-the-campaigns-fleet, address: \"http://${LISTEN}\"}"
	}
	return `
listen: ${LISTEN}
store: ` + store + `
time_zone: UTC
limits: none
agents:
  - {name: a1, token: ` + token("a1") + `, owner: hana}
  - {name: a2, token: ` + token("a2") + `, owner: ken}
  - {name: a3, token: ` + token("a3") + `}
people:
  - {name: hana, roles: [approver, admin], groups: [finance], line: ` + lineID("hana") + `, slack: U0HANA, token: ` +
		token("hana") + `}
  - {name: ken, roles: [approver], groups: [finance], slack: U0KEN, token: ` + token("ken") + `}
  - {name: mei, roles: [approver], groups: [finance], line: ` + lineID("mei") + `, slack: U0MEI, token: ` +
		token("mei") + `}
  - {name: rio, roles: [approver], groups: [security], line: ` + lineID("rio") + `, token: ` + token("rio") + `}
  - {name: mio, roles: [admin], slack: U0MIO, token: ` + token("mio") + `}` + leo + `
channels:
  line: {channel_secret: test-line-channel-secret, channel_access_token: test-line-access-token, notify: [` + notify + `],
    api_url: "${LINE_API}"}
  slack: {bot_token: test-slack-bot-token, signing_secret: test-slack-signing-secret, channel: ` + room + `,
    api_url: "${SLACK_API}"}
mcp: {hold: 400ms, servers: [{name: desk, url: "${DESK}", prefix: ""}]}
notifications: {max_retries: 12, first_retry: 1s, max_backoff: 1s}
heartbeat: [{name: check_pending_approvals, schedule: "*/5 * * * *", enabled: true, params: {remind_after: 12h}}]
policy:
  use_within: 3s
  group: ` + p.group + `
  group_within: 50ms
  join_after: 10s
  rules:
    - {name: reading, tools: [read, desk/look], risk: low, action: allow}
    - {name: erasing, tools: [erase], risk: critical, action: deny, reason_code: forbidden, message: Never.}
    - {name: paying, tools: [pay, desk/put], risk: medium, timeout: 1h, allow_skip: true}
    - {name: spending, tools: [spend], risk: medium, timeout: 1h, allow_skip: true,
       grants: {vary: {amount: {at_most: 50, total: 80}}}}
    - {name: moving, tools: [move], risk: high, timeout: 1h` + move + `}
    - {name: wiring, tools: [wire], risk: high, timeout: 1h, approvals: [{group: finance, count: 2}], separate_duties: true}
    - {name: shipping, tools: [ship], risk: high, timeout: 1h, approvals: [{group: finance}, {group: security}]}
    - {name: short, tools: [brief], risk: medium, timeout: 2s}
    - {name: closing, tools: [close], risk: critical, timeout: 1h, require_reason: true}
    - {name: opening, tools: [open], risk: high, timeout: 1h, confirm: true}
    - {name: noting, tools: [note], risk: medium, timeout: 1h, ignore_args: [memo]}
`
}

// settings are the same for the model.
func settings() map[string]*campaign.Setting {
	hour := time.Hour
	tools := map[string]campaign.Tool{
		"read": {Action: "allow"}, "look": {Action: "allow"}, "erase": {Action: "deny"},
		"pay": {Grants: true, Timeout: hour}, "put": {Grants: true, Timeout: hour},
		"spend": {Grants: true, AtMost: 50, Total: 80, Timeout: hour}, "move": {Timeout: hour},
		"wire":  {Stages: []campaign.Stage{{Group: "finance", Count: 2}}, Separate: true, Timeout: hour},
		"ship":  {Stages: []campaign.Stage{{Group: "finance", Count: 1}, {Group: "security", Count: 1}}, Timeout: hour},
		"brief": {Timeout: 2 * time.Second}, "close": {Reason: true, Timeout: hour}, "open": {Confirm: true, Timeout: hour},
		"note": {Ignore: "memo", Timeout: hour},
	}
	finance := []string{"finance"}
	people := map[string]campaign.Person{
		"hana": {Approver: true, Admin: true, Groups: finance}, "ken": {Approver: true, Groups: finance},
		"mei": {Approver: true, Groups: finance}, "rio": {Approver: true, Groups: []string{"security"}},
		"leo": {Approver: true}, "mio": {Admin: true},
	}
	owners := map[string]string{"a1": "hana", "a2": "ken"}
	all := &campaign.Setting{People: people, Owners: owners, Tools: tools}
	fewer := &campaign.Setting{People: map[string]campaign.Person{}, Owners: owners, Tools: map[string]campaign.Tool{}}
	for name, p := range people {
		if name != "leo" {
			fewer.People[name] = p
		}
	}
	for name, tool := range tools {
		if name == "move" {
			tool.Stages = []campaign.Stage{{Count: 2}}
		}
		fewer.Tools[name] = tool
	}
	return map[string]*campaign.Setting{"all": all, "fewer": fewer}
}

// world is a gate with everybody around it, for one round.
type world struct {
	t        testing.TB
	plan     plan
	dir      string
	log      *testkit.Buffer
	chat     *emulator.Emulator
	server   *mcpServer
	http     *http.Client
	began    time.Time
	entrance string        // a URL of the API that stays
	shared   database      // nil: the store is a file
	gates    []*program    // one, unless they share a database
	off      time.Duration // of the database's clock

	mu       sync.Mutex // of all below
	setting  string     // in the file
	history  campaign.History
	board    []*known
	grouped  map[string]bool // requests that share a card
	granted  []known         // calls that may pass without asking
	grants   []string
	standIns map[string][]string // delegations, by who is stood in for
	standIn  map[string]string   // who stands in last, by who is stood in for
	counts   map[string]int

	calls atomic.Int64
	next  atomic.Int64
	halt  atomic.Bool
}

// known is a request that somebody has heard of.
type known struct {
	id, agent, tool, args string
	over                  bool // it has ended, as somebody was told; behind world.mu
}

func newWorld(t testing.TB, p plan) *world {
	t.Helper()
	w := &world{t: t, plan: p, dir: t.TempDir(), log: &testkit.Buffer{}, setting: "all", counts: map[string]int{},
		grouped: map[string]bool{}, standIns: map[string][]string{}, standIn: map[string]string{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	w.history = campaign.History{First: "all", Settings: settings(), Failed: map[string]bool{},
		Feed: map[string][]string{}, Sent: map[string][]string{}, Steady: true, Calm: true}
	w.chat, w.server = newChat(t), newMCPServer(w)
	t.Cleanup(w.server.Close)
	t.Cleanup(w.http.CloseIdleConnections)
	if p.on.open == nil {
		schematest.WriteFile(t, filepath.Join(w.dir, "gate.db"))
	} else {
		w.shared = p.on.open(t)
		webhooks := balance(w, w.webhooks)
		w.chat.SetWebhooks(webhooks+"/webhook/line", webhooks+"/webhook/slack")
	}
	w.entrance = balance(w, w.url)
	w.writeConfig("all")
	w.began = time.Now()
	for n := range p.on.programs {
		w.gates = append(w.gates, &program{n: n})
		w.start(w.gates[n])
	}
	t.Cleanup(func() {
		for _, p := range w.gates {
			p.gate.send(contSignal)
			p.gate.kill()
		}
	})
	return w
}

func newChat(t testing.TB) *emulator.Emulator {
	t.Helper()
	var people []emulator.Person
	for _, name := range peopleNames {
		p := emulator.Person{Name: name, LINE: lineID(name), Slack: slackID(name)}
		people = append(people, p)
	}
	chat, err := emulator.New(emulator.Config{
		LINE: emulator.LINEConfig{ChannelSecret: "test-line-channel-secret", ChannelAccessToken: "test-line-access-token",
			BotUserID: "U0123456789abcdef0123456789abcdef"},
		Slack: emulator.SlackConfig{BotToken: "test-slack-bot-token", SigningSecret: "test-slack-signing-secret",
			TeamID: "T0TEAM", AppID: "A0APP", BotID: "B0BOT", BotUserID: "U0BOT",
			Channels: []emulator.Channel{{ID: room, Name: "approvals"}}},
		People: people,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chat.Close() })
	return chat
}

func (w *world) writeConfig(setting string) {
	path := filepath.Join(w.dir, "countersign.yaml")
	if err := os.WriteFile(path+".new", []byte(configText(w.plan, setting)), 0o600); err != nil {
		w.t.Error(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setting = setting
}

// inFile is the setting in the file.
func (w *world) inFile() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setting
}

// start starts a program on what is kept. The setting in the file is then in force, if it is the only one.
func (w *world) start(p *program) {
	w.t.Helper()
	o := &campaign.Op{Kind: campaign.Reload, Way: "start", Setting: w.inFile(), Start: time.Since(w.began)}
	var err error
	for tries := range 60 { // a database may be away, or another have taken the port
		if p.gate, err = w.startOnce(p); err == nil || w.shared == nil {
			break
		}
		time.Sleep(time.Duration(tries) * 10 * time.Millisecond) // real: so does what starts programs
	}
	if err != nil {
		w.t.Fatalf("the gate does not start: %v", err)
	}
	api, webhooks := p.gate.addresses()
	w.mu.Lock()
	p.api, p.webhooks = "http://"+api, "http://"+webhooks
	w.mu.Unlock()
	if w.shared != nil {
		return // what the others do is in force as well
	}
	w.chat.SetWebhooks(p.webhooks+"/webhook/line", p.webhooks+"/webhook/slack")
	o.Answered, o.Status = true, 200
	w.note(o)
}

func (w *world) startOnce(p *program) (gate, error) {
	env := []string{"LISTEN=127.0.0.1:0", "STORE=" + filepath.Join(w.dir, "gate.db"), "LINE_API=" + w.chat.LINE.URL(),
		"SLACK_API=" + w.chat.Slack.URL(), "DESK=" + w.server.URL, clockEnv + "=" + p.off.String()}
	if w.shared != nil { // others are to know where this one is
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		env[0], env[1] = "LISTEN="+l.Addr().String(), "STORE="+w.shared.reach(p.n)
	}
	if slices.Contains(w.plan.faults, "power") || slices.Contains(w.plan.faults, "sync") {
		env = append(env, diskEnv+"="+filepath.Join(w.dir, "gate.db"))
	}
	path := filepath.Join(w.dir, "countersign.yaml")
	if w.plan.inside && p.n == 0 {
		return startInside(w.t, path, env, w.log)
	}
	return startProcess(w.t, path, env, w.log)
}

// note ends an operation and keeps it.
func (w *world) note(o *campaign.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.End = time.Since(w.began)
	o.N = len(w.history.Ops) + 1
	w.history.Ops = append(w.history.Ops, o)
	w.counts[string(o.Kind)]++
	w.counts["way "+o.Way]++
	if o.Answer.Word != "" {
		w.counts["answer "+o.Answer.Word]++
	}
	if o.Grants {
		w.counts["grant "+o.Code+o.Answer.Status]++
	}
	if o.Answer.Grant != "" {
		w.counts["answer granted"]++
	}
	if s := o.Answer.Status; s != "" && s != "pending" || o.Code == "already_resolved" {
		for _, b := range w.board {
			b.over = b.over || b.id == o.ID
		}
	}
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// faulted counts a fault, and says what it takes away of what can be known.
func (w *world) faulted(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["fault "+kind]++
	if kind != "reload" && kind != "webhooks" {
		w.history.Calm = false
	}
	if kind == "clock" {
		w.history.Steady = false
	}
}

// at logs how long a round has taken so far.
func (w *world) at(what string) {
	w.t.Logf("%s after %s", what, time.Since(w.began).Round(time.Millisecond))
}

// url is where a program is reached, any of them.
func (w *world) url() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gates[int(w.next.Add(1))%len(w.gates)].api
}

// webhooks is the same for platforms.
func (w *world) webhooks() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gates[int(w.next.Add(1))%len(w.gates)].webhooks
}

// learn keeps a request that somebody has heard of.
func (w *world) learn(k *known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.id != "" && !slices.ContainsFunc(w.board, func(b *known) bool { return b.id == k.id }) {
		w.board = append(w.board, k)
	}
}

// allow keeps a call that may pass without asking, so that its agent makes it again.
func (w *world) allow(k known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.granted = append(w.granted, k)
}

// pickGranted takes one of the last of them that are an agent's.
func (w *world) pickGranted(r *rand.Rand, agent string) (known, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := slices.DeleteFunc(slices.Clone(w.granted), func(k known) bool { return k.agent != agent })
	if len(own) == 0 {
		return known{}, false
	}
	return own[len(own)-1-r.IntN(min(len(own), 5))], true
}

// patience is how long an observer waits for an answer before it is taken for lost.
const patience = 5 * time.Second

// ask sends a request over HTTP for an operation, and notes how that went. The body of the answer is returned, nil
// where there is none; it is left to the caller to note the operation.
func (w *world) ask(ctx context.Context, o *campaign.Op, as, method, path string, body any) []byte {
	return w.send(ctx, o, as, method, w.url()+path, body, nil)
}

func (w *world) send(ctx context.Context, o *campaign.Op, as, method, url string, body any, head http.Header) []byte {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			panic(err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		panic(err)
	}
	for name, values := range head {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token(as))
	if reader != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, text := w.do(o, req)
	if res == nil {
		return nil
	}
	if res.StatusCode/100 != 2 {
		var problem struct{ Code string }
		_ = json.Unmarshal(text, &problem)
		o.Code = problem.Code
		if o.Code == "" {
			o.Code = fmt.Sprint("status ", res.StatusCode)
		}
		return nil
	}
	return text
}

// do sends a request and notes whether it was answered; nil: it was not, or not to the end.
func (w *world) do(o *campaign.Op, req *http.Request) (*http.Response, []byte) {
	o.Start = time.Since(w.began)
	res, err := w.http.Do(req)
	if err != nil {
		o.Fault = err.Error()
		return nil, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		o.Fault = err.Error()
		return nil, nil
	}
	o.Answered, o.Status = true, res.StatusCode
	return res, text
}

// mcpServer is an MCP server that keeps what it was told to run, and dies on demand between that and its answer.
type mcpServer struct {
	*httptest.Server
	w   *world
	die atomic.Int64 // how many calls more are run and not answered
}

func newMCPServer(w *world) *mcpServer {
	s := &mcpServer{w: w}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

func (s *mcpServer) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := `"error":{"code":-32601,"message":"no"}`
	switch m.Method {
	case "initialize":
		answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}`
	case "tools/list":
		answer = `"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}},{"name":"put","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		if s.run(m.Params.Name, m.Params.Arguments) {
			panic(http.ErrAbortHandler) // the connection breaks: it has run, and nobody is told
		}
		answer = `"result":{"content":[]}`
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}

// run keeps a call, and reports whether the server dies of it.
func (s *mcpServer) run(tool string, args json.RawMessage) bool {
	var by struct{ By string }
	_ = json.Unmarshal(args, &by)
	at := time.Since(s.w.began)
	s.w.note(&campaign.Op{Kind: campaign.Run, Way: "mcp", Who: "desk", Agent: by.By, Server: "desk", Tool: tool,
		Args: string(args), Start: at, Answered: true, Status: 200})
	return s.die.Load() > 0 && s.die.Add(-1) >= 0
}
