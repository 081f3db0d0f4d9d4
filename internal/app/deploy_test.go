package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"countersign/internal/config"
)

// exported are the metrics of a gate that has every channel, with the labels of each.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	env := func(name string) (string, bool) { return "a-value-that-is-long-enough-" + name, true }
	cfg, _, err := config.Parse("test.yaml", []byte(`
people:
  - {name: hana, roles: [approver], line: U0123456789abcdef0123456789abcdef}
channels:
  line: {channel_secret: "${SECRET}", channel_access_token: "${TOKEN}", notify: [hana]}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		newMetrics(&App{o: Options{Config: cfg}, listeners: &listeners{}}).registry.Describe(descs)
		close(descs)
	}()
	read := regexp.MustCompile(`^Desc\{fqName: "(\w+)", .*constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	all := map[string][]string{"up": nil}
	for d := range descs {
		m := read.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		labels := strings.Split(m[3], ",")
		if name, _, ok := strings.Cut(m[2], "="); ok {
			labels = append(labels, name)
		}
		all[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") { // it may be a histogram; a name too many does no harm here
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				all[m[1]+part] = append(labels, "le")
			}
		}
	}
	return all
}

var (
	metricInQuery = regexp.MustCompile(`\b((?:countersign|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)
	labelInQuery  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	groupInQuery  = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	placeholder   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)`)
)

// unknown names what a query, and the texts that are filled in from its result, have that no metric of the
// gate has. job and instance are Prometheus's own.
func unknown(metrics map[string][]string, query string, texts ...string) []string {
	var wrong []string
	labels := []string{"job", "instance"}
	found := metricInQuery.FindAllStringSubmatch(query, -1)
	if len(found) == 0 {
		return []string{"no metric at all"}
	}
	for _, m := range found {
		has, ok := metrics[m[1]]
		if !ok {
			wrong = append(wrong, m[1])
		}
		labels = append(labels, has...)
		for _, l := range labelInQuery.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, has...), l[1]) {
				wrong = append(wrong, m[1]+"{"+l[1]+"}")
			}
		}
	}
	for _, g := range groupInQuery.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.Split(g[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
				wrong = append(wrong, "by "+l)
			}
		}
	}
	for _, p := range placeholder.FindAllStringSubmatch(strings.Join(texts, " "), -1) {
		if !slices.Contains(labels, p[1]) {
			wrong = append(wrong, "{{"+p[1]+"}}")
		}
	}
	return wrong
}

func TestAlertsAskForWhatTheGateExportsAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	readDeploy(t, "prometheus/countersign.rules.yml", yaml.Unmarshal, &rules)
	seen := map[string]bool{}
	for _, r := range rules.Groups[0].Rules {
		if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Countersign") {
			t.Errorf("%q is named twice, or not after the program", r.Alert)
		}
		seen[r.Alert] = true
		summary, action := r.Annotations["summary"], r.Annotations["action"]
		texts := strings.ReplaceAll(summary+action, "{{ $value", "")
		if wrong := unknown(metrics, r.Expr, texts); len(wrong) > 0 {
			t.Errorf("%s asks for what the gate does not export: %q", r.Alert, wrong)
		}
		for _, text := range []string{summary, action} {
			if len(text) < 20 || !strings.HasSuffix(text, ".") {
				t.Errorf("%s has no sentence where it should say what is the case, or what to do: %q", r.Alert, text)
			}
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %q", slices.Sorted(maps.Keys(seen)))
	}
}

func TestTheDashboardShowsWhatTheGateExports(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	var board struct {
		Panels []struct {
			ID          int
			Type        string
			Title       string
			Description string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	readDeploy(t, "grafana/countersign.json", json.Unmarshal, &board)
	ids, cells, queries := map[int]bool{}, map[string]string{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has another's id, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for i := range p.GridPos.W * p.GridPos.H {
			cell := fmt.Sprint(p.GridPos.X+i%p.GridPos.W, " ", p.GridPos.Y+i/p.GridPos.W)
			if other := cells[cell]; other != "" || p.GridPos.X+p.GridPos.W > 24 {
				t.Fatalf("%q lies over %q, or beyond the right edge", p.Title, other)
			}
			cells[cell] = p.Title
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("%q shows nothing, or does not say what", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			if wrong := unknown(metrics, q.Expr, q.LegendFormat); len(wrong) > 0 {
				t.Errorf("%q asks for what the gate does not export: %q", p.Title, wrong)
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Definition != "" {
			if wrong := unknown(metrics, v.Definition); len(wrong) > 0 {
				t.Errorf("the variable %s asks for what the gate does not export: %q", v.Name, wrong)
			}
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries", queries)
	}
}

func TestUnknownFindsWhatIsNotExported(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	for query, want := range map[string]string{
		`countersign_requests_waiting > 0`:                        "countersign_requests_waiting",
		`countersign_mcp_server_up{channel="a"}`:                  "countersign_mcp_server_up{channel}",
		`sum by (server, channel) (countersign_mcp_server_up)`:    "by channel",
		`rate(countersign_notification_send_seconds_buckets[5m])`: "countersign_notification_send_seconds_buckets",
		`vector(1)`: "no metric at all",
		`countersign_line_quota_used and countersign_slack_quota_used`:   "countersign_slack_quota_used",
		`sum by (le) (rate(countersign_mcp_request_seconds_bucket[5m]))`: "",
	} {
		if got := strings.Join(unknown(metrics, query), "; "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := unknown(metrics, "countersign_requests_pending", "of {{ $labels.server }}"); len(got) != 1 {
		t.Errorf("a text with a label that there is not: %q", got)
	}
}

// Every YAML file of deploy/ can be read, and the unit's program is told to serve.
func TestWhatIsDeployedCanBeRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"compose.yaml", "compose.monitoring.yaml", "prometheus/prometheus.yml",
		"prometheus/countersign.rules_test.yml", "grafana/provisioning/datasources/prometheus.yml",
		"grafana/provisioning/dashboards/countersign.yml"} {
		var m map[string]any
		readDeploy(t, name, yaml.Unmarshal, &m)
		if len(m) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	unit, err := os.ReadFile("../../deploy/countersign.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nType=notify\n", "\nExecStart=/usr/local/bin/countersign serve --config ",
		"\nNoNewPrivileges=yes\n"} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit has no line %q", want)
		}
	}
}

func readDeploy(t *testing.T, name string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/" + name)
	if err == nil {
		err = unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// What the documents say of containers is what compose.replicas.yaml and haproxy.cfg have.
func TestReplicasInContainers(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Hostname    string
			Environment map[string]string
			Networks    any
		}
	}
	text := fileText(t, "../../deploy/compose.replicas.yaml")
	if err := yaml.Unmarshal([]byte(text), &compose); err != nil {
		t.Fatal(err)
	}
	docs := fileText(t, "../../docs/replicas.md")
	_, docs, _ = strings.Cut(docs, "## In containers")
	_, docs, _ = strings.Cut(docs, "```yaml\n")
	docs, _, _ = strings.Cut(docs, "```")
	haproxy := fileText(t, "../../deploy/haproxy/haproxy.cfg")
	for _, name := range []string{"gate-a", "gate-b"} {
		gate := compose.Services[name]
		if gate.Hostname != name || !strings.Contains(haproxy, "server "+name+" "+name+":8787\n") {
			t.Errorf("%s is %q, and in HAProxy's configuration something else", name, gate.Hostname)
		}
		env := func(variable string) (string, bool) {
			if variable == "HOSTNAME" {
				return gate.Hostname, true
			}
			_, ok := gate.Environment[variable]
			return strings.Repeat("s", 32), ok
		}
		cfg, problems, err := config.Parse("countersign.yaml", []byte(docs+"people: [{name: hana, roles: [approver]}]\n"), env)
		if err != nil {
			t.Fatalf("%v\n%v", err, problems)
		}
		database := compose.Services["database"].Environment
		if at := "postgres://database/" + database["POSTGRES_DB"]; cfg.Store != at || cfg.ReplicaAddress() != "http://"+name+":8787" {
			t.Errorf("%s: the store is %s, want %s; it is reached at %s", name, cfg.Store, at, cfg.ReplicaAddress())
		}
		if want := "postgres://" + database["POSTGRES_USER"] + ":"; !strings.HasPrefix(cfg.StoreURL.Reveal(), want) {
			t.Errorf("%s signs in to the database as somebody else", name)
		}
	}
	of, _ := compose.Services["haproxy"].Networks.(map[string]any)
	own, _ := of["gates"].(map[string]any)
	if at := fmt.Sprint(own["ipv4_address"]); !strings.Contains(docs, "trusted_proxies: ["+at+"]") {
		t.Errorf("the gate does not trust HAProxy, at %s", at)
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
