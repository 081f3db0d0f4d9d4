// Package countersign_test holds what is true of the whole tree: which package may import which, and
// that each tells its story once.
package countersign_test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arrows says which of our packages each one may import, and why it may not import more. Imports run
// cmd → app → {rest, web, gateway, webhook, channels/*, outbox, chat, heartbeat, policy, store} → approval; siblings
// meet in the types of approval and are joined in app.
var arrows = map[string]struct {
	may []string
	why string
}{
	"approval": {[]string{"approval/args", "approval/args/decimal", "approval/legible",
		"approval/redact", "approval/args/vary", "internal/secret", "approval/broker", "approval/summary", "approval/message",
		"approval/need", "approval/proof", "approval/correlation"}, "the domain knows nobody"},
	"internal/api": {[]string{"approval", "approval/args", "client"}, "one shape in, the other out"},
	"internal/auth": {[]string{"approval", "internal/auth/bearer", "internal/loopback",
		"internal/secret"}, "who is who, and not what they may do"},
	"internal/chat": {[]string{"approval", "approval/legible", "internal/locale/phrases",
		"internal/lists", "approval/message"}, "what is pressed, typed and answered, on no channel in particular"},
	"internal/lists": {[]string{"approval"},
		"pages of what is kept, for whoever shows them: it decides nothing"},
	"internal/locale/phrases": {[]string{"approval"},
		"sentences in English, which policy and locale take without the rest of chat"},
	"channels/outbox": {[]string{"approval", "approval/legible", "channels", "internal/secret",
		"internal/lists"}, "rows that become messages: it knows what every channel is, and no platform"},
	"channels/outbox/outboxtest": {[]string{"approval", "channels/outbox"}, "where cards go in tests"},
	"approval/args":              {[]string{"approval/legible"}, "what is called with, and nothing of who calls"},
	"approval/args/decimal":      {nil, "numbers as they are written"},
	"approval/args/vary": {[]string{"approval/args", "approval/args/decimal"},
		"arguments beside others, and nothing of who agreed to which"},
	"approval/legible":     {nil, "characters, and nothing of what they say"},
	"approval/broker":      {nil, "who is woken by what, and nothing of what it means"},
	"approval/message":     {[]string{"approval/legible"}, "names, times and reasons in, a sentence out"},
	"approval/need":        {nil, "people and groups by name, and nothing of how they vote"},
	"approval/proof":       {nil, "what was proven, and nothing of passkeys"},
	"approval/correlation": {nil, "ids, and nothing of what they are of"},
	"approval/summary": {[]string{"approval/args", "approval/args/decimal", "approval/legible",
		"approval/redact"}, "a sentence and arguments in, a sentence out, and nothing of who is asked"},
	"approval/redact":           {[]string{"approval/legible"}, "texts and JSON in, the same without secrets out"},
	"internal/auth/bearer":      {nil, "a request in, its token out"},
	"internal/safefile":         {nil, "bytes in, on the disk under their name, and nothing of what they say"},
	"internal/bodies":           {nil, "a stream in, its bytes out"},
	"internal/filediff":         {nil, "two texts in, their difference out"},
	"internal/disk":             {nil, "how much room there is on a disk"},
	"internal/uptime":           {nil, "how long the machine has run, and nothing of what time it is"},
	"internal/loopback":         {nil, "a host's name in, yes or no out"},
	"internal/testkit":          {nil, "of the tests"},
	"internal/testkit/chromium": {nil, "of the tests: a browser, and nothing of what it shows"},
	"internal/testkit/jsongen":  {nil, "of the tests"},
	"internal/testkit/powercut": {nil, "of the tests: a disk, and nothing of what is written on it"},
	"internal/ratelimitedlog":   {nil, "it counts, and logs nothing itself"},
	"internal/locale": {[]string{"approval", "internal/locale/phrases", "approval/message"},
		"sentences, and nobody to say them to"},
	"internal/auth/openid": {[]string{"internal/loopback", "internal/secret"},
		"who a provider says that somebody is, and nothing of sessions"},
	"internal/auth/openid/openidtest": {nil, "a stand-in that shared code with our client would share its mistakes"},
	"internal/secret":                 {nil, "a string that does not print, for whoever holds one"},
	"internal/yamlpos":                {nil, "YAML in, values with their places out, and nothing of what they mean"},
	"schema":                          {nil, "SQL files and the code that applies them"},
	"schema/schematest":               {[]string{"schema"}, "a file that has its tables, for tests"},
	"client": {nil,
		"it speaks the API as an outside program does; its words are those of whoever asks (Asker), so they depend on nobody's insides"},
	"internal/emulator": {nil,
		"a stand-in that shared a struct with our clients would share their mistakes"},
	"internal/auth/passkey": {[]string{"internal/secret", "approval", "approval/legible", "approval/proof",
		"approval/correlation"}, "what a passkey proves, and nothing of sessions; it alone makes proofs"},
	"internal/auth/passkey/passkeytest": {nil,
		"a security key that shared code with what checks it would share its mistakes"},
	"internal/auth/signin": {[]string{"internal/secret", "approval", "approval/legible", "approval/correlation"},
		"who looks at the pages, and nothing of what is on them"},
	"internal/store": {[]string{"approval", "internal/auth/signin", "internal/auth/passkey",
		"approval/summary"}, "rows, and neither rules nor a database"},
	"internal/store/sqlite": {[]string{"approval", "internal/safefile", "schema", "internal/auth/signin",
		"internal/auth/passkey", "internal/store", "internal/store/sqlite/sqlite3", "internal/uptime"},
		"what keeps the rows, and no rules"},
	"internal/store/sqlite/sqlite3": {nil, "SQLite's calls, and no tables"},
	"internal/store/postgres": {[]string{"approval", "schema", "internal/auth/signin",
		"internal/auth/passkey", "internal/budget", "internal/store", "internal/ratelimitedlog",
		"internal/uptime"}, "what keeps the rows where several programs write, and no rules"},
	"internal/store/move": {[]string{"internal/store", "internal/store/postgres", "internal/store/sqlite"},
		"from one kind of database to the other, and nothing of what rows mean"},
	"internal/store/postgres/postgrestest": {[]string{"internal/testkit"}, "a server for tests, and nothing of its tables"},
	"internal/store/storetest": {[]string{"approval", "internal/auth/signin", "internal/auth/passkey",
		"approval/summary"}, "the contract is the domain's, for every store"},
	"internal/policy": {[]string{"approval", "approval/args", "approval/args/decimal", "approval/legible",
		"internal/locale/phrases", "internal/policy/presets", "internal/policy/shell", "internal/yamlpos",
		"approval/summary"}, "a call in, a verdict out"},
	"internal/policy/shell":   {nil, "a command line in, yes or a doubt out"},
	"internal/policy/presets": {nil, "texts, which policy reads"},
	"internal/history":        {[]string{"approval", "approval/args"}, "what the record tells, and nobody it tells"},
	"internal/budget":         {[]string{"approval"}, "who has used how much, and of nothing what for"},
	"heartbeat":               {[]string{"approval"}, "it starts work that others do"},
	"internal/agents/hooks": {[]string{"approval", "approval/args", "client", "internal/api", "internal/bodies",
		"internal/filediff", "internal/ratelimitedlog"},
		"an agent's event in, its answer out; it asks through client.Asker, whichever process the gate is in"},
	"internal/agents/settings": {[]string{"internal/config", "internal/safefile"},
		"it edits files, and asks the gate nothing"},
	"internal/mcp":          {nil, "messages, and no sessions"},
	"internal/mcp/upstream": {[]string{"internal/mcp"}, "connections to servers, which know no rules"},
	"internal/mcp/downstream": {[]string{"internal/bodies", "internal/loopback", "internal/mcp"},
		"connections of clients, which know no rules"},
	"internal/mcp/gateway": {[]string{"internal/secret", "approval", "approval/args", "approval/legible", "internal/budget",
		"internal/filediff", "internal/mcp", "internal/mcp/downstream", "internal/mcp/upstream", "approval/correlation"},
		"it asks the gate and forwards"},
	"internal/mcp/stdioproxy": {[]string{"approval", "approval/args", "client", "internal/api",
		"internal/mcp/downstream", "internal/mcp/gateway", "internal/mcp/upstream", "approval/correlation"},
		"a gateway whose gate is elsewhere"},
	"internal/history/export": {[]string{"approval"}, "rows in, files out, and nothing of who may have them"},
	"internal/rest": {[]string{"approval", "approval/args", "approval/legible", "internal/auth",
		"internal/budget", "internal/history/export", "internal/history", "internal/bodies", "internal/auth/signin", "client",
		"internal/api", "internal/lists", "approval/correlation"},
		"it translates, into the structs that the client reads, and decides nothing"},
	"channels": {[]string{"approval", "approval/args", "approval/legible", "approval/redact",
		"internal/chat", "internal/locale/phrases", "internal/locale", "internal/secret", "approval/summary"},
		"cards and words, of no platform"},
	"channels/channelstest": {[]string{"approval", "approval/args", "approval/legible", "channels",
		"approval/summary"}, "what every channel's tests share"},
	"channels/all": {[]string{"channels/kind", "channels/line", "channels/slack",
		"channels/standardwebhooks"}, "the one list of the platforms"},
	"channels/kind": {[]string{"approval", "channels", "internal/secret", "webhook"},
		"what every platform says of itself, and no platform"},
	"channels/line": {[]string{"approval", "approval/legible", "channels", "channels/kind", "internal/chat",
		"internal/locale", "internal/secret", "webhook"}, "one platform each"},
	"channels/slack": {[]string{"approval", "approval/legible", "channels", "channels/kind", "internal/chat",
		"internal/locale/phrases", "internal/locale", "internal/ratelimitedlog", "internal/secret", "webhook"},
		"one platform each"},
	"channels/standardwebhooks": {[]string{"approval", "approval/legible", "channels", "channels/kind",
		"internal/loopback", "internal/locale", "internal/secret"}, "one way out"},
	"internal/listener": {nil, "it knows connections, and nobody who makes them"},
	"webhook": {[]string{"approval", "internal/chat", "internal/ratelimitedlog", "approval/correlation"},
		"it knows no platform and no channel: what it does for one way in it does for all"},
	"webhook/webhooktest": {[]string{"internal/chat", "internal/testkit", "webhook"},
		"what the tests of every way in share"},
	"internal/retention": {[]string{"approval", "internal/history/export", "internal/safefile"},
		"what goes when, and nothing of what it means"},
	"internal/telemetry": {[]string{"approval", "approval/correlation", "approval/legible", "internal/ratelimitedlog"},
		"calls and committed events in, traces and metrics out: what decides knows nothing of it"},
	"internal/telemetry/telemetrytest": {nil, "a collector that shared code with what exports would share its mistakes"},
	"internal/backup": {[]string{"internal/safefile"},
		"a stream in, a file in a folder out, and back: nothing of what it says"},
	"internal/config": {[]string{"approval", "approval/args", "approval/redact", "internal/auth", "internal/backup",
		"internal/budget", "channels", "channels/all", "channels/kind", "heartbeat", "internal/loopback",
		"internal/listener", "internal/locale",
		"internal/policy", "internal/retention", "internal/secret", "internal/auth/openid", "internal/yamlpos"},
		"it composes the sections that packages own"},
	"internal/app": {[]string{"internal/agents/hooks", "approval", "approval/legible", "approval/redact", "internal/auth",
		"internal/backup", "internal/budget", "channels", "channels/kind", "internal/chat", "internal/locale/phrases",
		"client", "internal/config", "internal/disk", "heartbeat", "internal/auth/bearer", "internal/loopback",
		"internal/ratelimitedlog", "internal/listener", "internal/locale", "internal/mcp/downstream",
		"internal/mcp/gateway", "internal/mcp/upstream",
		"channels/outbox", "internal/history", "internal/policy", "internal/rest", "internal/retention", "internal/secret",
		"internal/auth/signin",
		"internal/auth/passkey", "internal/auth/openid", "internal/store/sqlite", "internal/store/postgres", "internal/web",
		"webhook", "internal/lists", "approval/proof", "internal/telemetry"},
		"the only place that knows concrete types; the stand-ins are not of the program"},
	"internal/web": {[]string{"approval", "approval/args", "approval/legible", "approval/redact",
		"internal/auth", "internal/budget", "channels", "internal/history/export", "internal/history", "internal/loopback",
		"internal/ratelimitedlog", "internal/locale", "internal/locale/phrases", "internal/policy", "internal/retention",
		"internal/auth/signin", "internal/auth/passkey",
		"internal/auth/openid", "internal/yamlpos", "internal/lists", "approval/correlation"},
		"pages: they show what cards show, whole, and have the gate decide"},
	"internal/terminal/inbox": {[]string{"client"}, "a list and what is decided on it, on no terminal"},
	"internal/terminal/inbox/inboxtest": {[]string{"approval", "approval/redact", "internal/auth", "client",
		"internal/testkit", "channels/outbox", "channels/outbox/outboxtest", "internal/rest", "schema/schematest",
		"internal/store/sqlite", "internal/store/storetest", "approval/summary"},
		"a whole gate for tests of whoever decides"},
	"internal/terminal": {[]string{"approval/legible", "client", "internal/terminal/inbox", "internal/locale"},
		"it shows and asks; what is decided is the inbox's"},
	"internal/terminal/logins": {[]string{"internal/safefile", "internal/secret"},
		"files with tokens, and nobody who uses them"},
	"internal/agents/localgate": {nil, "it starts the program as a stranger would, and knows it by its socket"},
	"internal/demo": {[]string{"internal/app", "client", "internal/config", "internal/disk", "internal/emulator",
		"internal/listener", "internal/secret"}, "the program, its stand-ins and an agent, through the front doors"},
	"internal/bench": {[]string{"internal/emulator", "internal/loopback", "internal/secret"},
		"it loads the program by its front doors, and shares no code with it"},
	"internal/interop": {nil, "it knows the program by its front doors"},
	"internal/campaign": {nil,
		"a model that shared code with the gate would share its mistakes: it knows what was seen from outside"},
	"internal/setup": {[]string{"channels", "channels/line", "channels/slack", "channels/standardwebhooks",
		"client", "internal/config", "internal/locale"}, "it asks the platforms, and a running gate, from outside"},
	"internal/release/pack": {nil, "binaries in, a release out, and nothing of what they do"},
	"cmd/countersign": {[]string{"internal/agents/hooks", "internal/agents/settings", "internal/app", "approval",
		"approval/args", "approval/redact", "client", "internal/backup", "internal/config", "internal/demo",
		"internal/emulator",
		"internal/history", "internal/terminal/inbox", "internal/safefile", "internal/loopback", "internal/locale",
		"internal/agents/localgate", "internal/terminal/logins", "internal/mcp/stdioproxy", "internal/policy/presets",
		"internal/secret", "internal/setup", "internal/store/move", "internal/store/sqlite", "internal/store/postgres",
		"internal/terminal", "internal/yamlpos"}, "flags and tables: the store only to copy it and to put a copy back"},
}

// outside says which other modules the packages that promise to be lean may import.
var outside = map[string][]string{
	"approval":              {"github.com/oklog/ulid/v2"},
	"approval/args":         {"github.com/go-json-experiment/json/jsontext"},
	"approval/args/decimal": {},
	"approval/args/vary":    {},
	"approval/legible":      {},
	"approval/message":      {},
	"approval/correlation":  {"github.com/oklog/ulid/v2"},
	"approval/need":         {},
	"approval/proof":        {},
	"approval/broker":       {},
	"approval/summary":      {"github.com/go-json-experiment/json/jsontext"},
	"approval/redact":       {"github.com/go-json-experiment/json/jsontext"},
	"internal/emulator":     {"github.com/coder/websocket", "github.com/rivo/uniseg"},
	"webhook":               {},
	"internal/store":        {"github.com/oklog/ulid/v2"}, // no database's
}

func TestImportArrows(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := p.ImportPath
		rule, ok := arrows[name]
		if !ok {
			t.Errorf("package %s is not in the table of arrows: say what it may import, and why", name)
			continue
		}
		seen[name] = true
		for _, imp := range p.Imports {
			ours, isOurs := strings.CutPrefix(imp, "countersign/")
			if isOurs && !slices.Contains(rule.may, ours) {
				t.Errorf("%s imports %s, which it may not: %s", name, ours, rule.why)
			}
			if lean, ok := outside[name]; ok && !isOurs && strings.Contains(strings.Split(imp, "/")[0], ".") &&
				!slices.Contains(lean, imp) {
				t.Errorf("%s imports %s; beside the standard library it may import %v", name, imp, lean)
			}
		}
	}
	for name := range arrows {
		if !seen[name] {
			t.Errorf("the table of arrows names %s, which is not there", name)
		}
	}
}

// The verified way in knows no channel, not even by way of another package: else something that was checked for one of
// them could be missing for the next.
func TestTheWayInKnowsNoChannel(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", "./webhook").Output() // real: a list of the go command
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.FieldsSeq(string(deps)) {
		if p == "countersign/channels" || strings.HasPrefix(p, "countersign/channels/") {
			t.Errorf("webhook depends on %s", p)
		}
	}
}

// The rooms, which are the folders of the root and those of internal, stand in an order: between them no arrow leads
// back up. Go keeps packages from a circle, and not the folders that they are in.
func TestNoArrowLeadsBackUp(t *testing.T) {
	uses := map[string]map[string]string{} // of a room, by the room that it imports: one package that does
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, "countersign/"); ok && room(ours) != from {
				uses[from][room(ours)] = p.ImportPath + " imports " + i
			}
		}
	}
	if len(uses["internal/app"]) < 10 {
		t.Fatalf("only %d rooms were found beside %v", len(uses), uses["internal/app"])
	}
	for len(uses) > 0 { // those at the bottom are taken away, until there are none
		n := len(uses)
		for from, to := range uses {
			maps.DeleteFunc(to, func(r, _ string) bool { return uses[r] == nil })
			if len(to) == 0 {
				delete(uses, from)
			}
		}
		if len(uses) == n {
			t.Fatalf("these rooms are in a circle, or above one: %v", uses)
		}
	}
}

// room is the folder of the root that a package is in, or that of internal.
func room(importPath string) string {
	parts := strings.Split(importPath, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1]
	}
	return parts[0]
}

func TestEachPackageTellsItsStoryOnce(t *testing.T) {
	for _, p := range packages(t) {
		told := 0
		for _, s := range p.sources(t) {
			if s.file.Doc != nil {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%s has %d package comments, want one", p.ImportPath, told)
		}
	}
}

// What ARCHITECTURE.md names is there: files by their path, and methods and fields by their type.
func TestTheMapNamesWhatThereIs(t *testing.T) {
	doc, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]bool{} // Type.Member
	for _, s := range builtSources(t) {
		addMembers(members, s.file)
	}
	named := 0
	for _, m := range regexp.MustCompile("`([A-Z]\\w+\\.\\w+)`").FindAllSubmatch(doc, -1) {
		if named++; !members[string(m[1])] {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z][\\w-]*/[\\w/.-]+\\.(?:go|yaml|sql|md))`").FindAllSubmatch(doc, -1) {
		if named++; !exists(string(m[1])) {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", m[1])
		}
	}
	if named < 40 {
		t.Errorf("only %d names were looked at", named)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// addMembers notes the methods of a file's types, and the fields of its structs and methods of its interfaces.
func addMembers(members map[string]bool, file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if name, ok := of.(*ast.Ident); ok {
					members[name.Name+"."+d.Name.Name] = true
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					for _, f := range fieldsOf(ts.Type) {
						for _, n := range f.Names {
							members[ts.Name.Name+"."+n.Name] = true
						}
					}
				}
			}
		}
	}
}

func fieldsOf(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// Rule 2.12, both ways: what is served has time-outs, and what is asked outside follows no redirect, which
// could take a token elsewhere.
func TestRule12_NoServerOrClientIsUnbounded(t *testing.T) {
	needed := map[string][]string{"Server": {"ReadHeaderTimeout"}, "Client": {"CheckRedirect"}}
	bare := []string{"DefaultClient", "Get", "Head", "Post", "PostForm", "ListenAndServe", "ListenAndServeTLS", "Serve",
		"ServeTLS"}
	found := map[string]int{}
	for _, s := range builtSources(t) {
		fromHTTP := func(e ast.Expr) string {
			if s, ok := e.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "http" {
					return s.Sel.Name
				}
			}
			return ""
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if name := fromHTTP(n); slices.Contains(bare, name) {
					t.Errorf("%s: http.%s has no time-outs", s.position(n), name)
				}
			case *ast.CompositeLit:
				name := fromHTTP(n.Type)
				for _, field := range needed[name] {
					found[name]++
					if !slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
						kv, ok := e.(*ast.KeyValueExpr)
						if !ok {
							return false
						}
						key, ok := kv.Key.(*ast.Ident)
						return ok && key.Name == field
					}) {
						t.Errorf("%s: http.%s without %s", s.position(n), name, field)
					}
				}
			}
			return true
		})
	}
	if found["Server"] == 0 || found["Client"] == 0 {
		t.Errorf("nothing was looked at: %v", found)
	}
}

// How many methods an interface declares, and a type has, at most: of more nobody knows what it is for, and nobody can
// stand in for it in a test.
const (
	mostOfInterface = 15
	mostOfType      = 60
)

// The domain holds what decides. 7,500 lines are wanted; until then it only shrinks.
func TestTheDomainIsSmall(t *testing.T) {
	const most = 8_980
	lines := 0
	for _, p := range packages(t) {
		if p.ImportPath != "approval" {
			continue
		}
		for _, f := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
	}
	if lines > most || lines < most-500 {
		t.Errorf("approval has %d lines, want at most %d and not 500 fewer: lower the number as it shrinks", lines, most)
	}
}

// declared counts the methods of a package's types, and of its interfaces those that they do not embed.
func declared(t *testing.T, p pkg) (types, interfaces map[string]int) {
	t.Helper()
	types, interfaces = map[string]int{}, map[string]int{}
	for _, s := range p.sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					types[receiver(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						interfaces[n.Name.Name] += len(m.Names)
					}
				}
			}
			return true
		})
	}
	return types, interfaces
}

// receiver is the name of the type that a method is of.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func TestNoTypeDoesEverything(t *testing.T) {
	looked := 0
	for _, p := range packages(t) {
		path := p.ImportPath
		types, interfaces := declared(t, p)
		looked += len(types) + len(interfaces)
		for name, n := range interfaces {
			if n > mostOfInterface {
				t.Errorf("the interface %s.%s has %d methods of its own, at most %d: cut it by noun", path, name, n,
					mostOfInterface)
			}
		}
		for name, n := range types {
			if n > mostOfType {
				t.Errorf("%s.%s has %d methods, at most %d: cut it by noun", path, name, n, mostOfType)
			}
		}
	}
	if looked < 100 {
		t.Errorf("only %d types were looked at", looked)
	}
}

// What a transaction can do is in its type: nobody asks one whether it can do more. Only a store knows its own.
func TestNoTransactionIsAsserted(t *testing.T) {
	for _, s := range builtSources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			a, ok := n.(*ast.TypeAssertExpr)
			if !ok {
				return true
			}
			name := ""
			switch x := a.Type.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			if name == "Tx" {
				t.Errorf("%s: a transaction is asserted", s.position(n))
			}
			return true
		})
	}
}

// app wires the parts together. What it answers inside their transactions it answers from memory: were it handed one, a
// transaction would wander from the gate to the outbox to app and back to the gate, and nobody could tell what it
// reads. Those of its functions that take one all the same, and why:
var appInTransactions = map[string]string{
	"endAfterFailover": "one transaction notes that another server has taken over, ends what was open, and tells of it",
	"endAfterMove":     "as endAfterFailover, where the rows have come from a file",
	"LinkIn":           "whoever asks in a chat for a link to sign in is answered in the transaction that makes it: rows of sign-in",
}

func TestAppIsHandedNoTransaction(t *testing.T) {
	looked := 0
	for _, s := range builtSources(t) {
		if s.dir() != "internal/app" {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			looked++
			ast.Inspect(fn.Type, func(n ast.Node) bool {
				of, ok := n.(*ast.SelectorExpr)
				if ok && (of.Sel.Name == "Tx" || of.Sel.Name == "Work") && appInTransactions[fn.Name.Name] == "" {
					t.Errorf("%s: %s takes a transaction", s.position(fn), fn.Name.Name)
				}
				return true
			})
		}
	}
	if looked < 100 {
		t.Errorf("only %d functions were looked at", looked)
	}
}

// ARCHITECTURE.md lists every folder of the root and every package, and none that is not there.
func TestTheMapNamesEveryRoom(t *testing.T) {
	doc, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := func(title string) []string {
		_, section, _ := strings.Cut(string(doc), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var names []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(section, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	roots := []string{"cmd/countersign"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '.' && e.Name() != "cmd" && e.Name() != "dist" {
			roots = append(roots, e.Name())
		}
	}
	slices.Sort(roots)
	if diff := cmp.Diff(roots, listed("The rooms")); diff != "" {
		t.Errorf("the folders of the root and ARCHITECTURE.md's rooms (-want +got):\n%s", diff)
	}
	packages := append(slices.Sorted(maps.Keys(arrows)), "client/adk") // adk is a module of its own
	slices.Sort(packages)
	if diff := cmp.Diff(packages, listed("The packages")); diff != "" {
		t.Errorf("the packages and ARCHITECTURE.md's (-want +got):\n%s", diff)
	}
}

// writesFiles are the files outside tests that name, make or write files themselves, and why nothing is lost when the
// power goes. All others have internal/safefile do it: a file that is only renamed can be empty after that.
var writesFiles = map[string]string{
	"internal/app/socket_unix.go":      "a socket is made anew at every start",
	"internal/backup/backup.go":        "a stream, which is synced and then named",
	"internal/bench/disk.go":           "a measurement",
	"internal/bench/own.go":            "of a gate that lives as long as the measurement",
	"cmd/countersign/open.go":          "a page that the browser reads once",
	"internal/disk/reserve.go":         "it has nothing to lose",
	"internal/demo/setting.go":         "of a gate that lives as long as the demo",
	"internal/safefile/safefile.go":    "it is what does it",
	"internal/agents/localgate/up.go":  "a log for people, and a lock",
	"internal/release/pack/main.go":    "a release, which is made anew where that failed",
	"internal/store/sqlite/copy.go":    "a copy, which is synced and then named (copyTo)",
	"internal/store/sqlite/file.go":    "the store's own files, which are synced where they are written",
	"internal/store/sqlite/restore.go": "the store's own files, which get other names",
	"internal/terminal/edit.go":        "what an editor is shown for a moment",
}

// Rule 2.7: what was written is there after a loss of power.
func TestRule7_FilesAreWrittenWhole(t *testing.T) {
	makes := []string{"Create", "CreateTemp", "Link", "OpenFile", "Rename", "WriteFile"}
	found := map[string]bool{}
	for _, s := range builtSources(t) {
		if slices.ContainsFunc([]string{"internal/testkit/", "schema/schematest/", "internal/store/postgres/postgrestest/"},
			func(dir string) bool { return strings.HasPrefix(s.path, dir) }) { // of the tests
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			of, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(makes, of.Sel.Name) {
				return true
			}
			if x, ok := of.X.(*ast.Ident); ok && x.Name == "os" {
				if found[s.path] = true; writesFiles[s.path] == "" {
					t.Errorf("%s: os.%s: use internal/safefile, or say in writesFiles why not", s.position(n), of.Sel.Name)
				}
			}
			return true
		})
	}
	for name := range writesFiles {
		if !found[name] {
			t.Errorf("writesFiles names %s, which does not", name)
		}
	}
}

// readsClock are the files outside tests that read the machine's clock themselves, and what for. All others
// are given the time: what is compared with a store's times, or shown beside them, has to come from the same
// clock. Deadlines of connections are the kernel's and need no row, nor does time.Since, which goes with a
// reading of the clock, nor time.Now itself as the clock that a field is filled with, which a test fills otherwise.
var readsClock = map[string]string{
	"channels/http.go":                   "Retry-After, where a platform gives it as a date of its own clock",
	"channels/outbox/sender.go":          "how long a platform took to answer",
	"channels/slack/socket.go":           "how long a socket was open, and the deadlines of its connection",
	"client/asker.go":                    "how long it waits for a gate elsewhere",
	"client/client.go":                   "how far the clock of the server is from this machine's",
	"heartbeat/heartbeat.go":             "how long a run took",
	"internal/bench/measure.go":          "how long calls take",
	"internal/config/config.go":          "when a file is read: whether a cron schedule ever comes, and a certificate is valid",
	"internal/listener/handler.go":       "the Date of an answer",
	"internal/mcp/downstream/http.go":    "how long a session has done nothing, and a request took",
	"internal/mcp/gateway/clock.go":      "how old the gateway is, and so all that it measures; the time in an id that is made, when a task last changed, and since when a server is up or down",
	"internal/mcp/stdioproxy/gate.go":    "how long it waits for a gate elsewhere, whose times it only passes on",
	"internal/mcp/upstream/transport.go": "since when a connection is idle",
	"internal/rest/rest.go":              "how long a request took; the time in an id that is made",
	"internal/setup/verify.go":           "how long it waits for a message and a press",
	"internal/store/sqlite/clock.go":     "the time that passes, where the machine has no better count",
	"internal/store/sqlite/writer.go":    "how long a group has taken",
}

// readsClockForTests are the packages of tests and of the emulator, in which any file may.
var readsClockForTests = []string{"internal/emulator/", "internal/store/postgres/postgrestest/",
	"internal/store/storetest/", "internal/testkit/"}

// mostClockReaders only ever goes down: who needs one more takes the time from who calls, or from a Now beside it.
const mostClockReaders = 17

func TestTheClockIsReadInFewPlaces(t *testing.T) {
	reads := map[string]bool{}
	for _, s := range builtSources(t) {
		if slices.ContainsFunc(readsClockForTests, func(dir string) bool { return strings.HasPrefix(s.path, dir) }) {
			continue
		}
		for _, at := range s.clockReads() {
			reads[s.path] = true
			if readsClock[s.path] == "" {
				t.Errorf("%s reads the machine's clock: take the time from who calls, or say here what the reading is for", at)
			}
		}
	}
	for path := range readsClock {
		if !reads[path] {
			t.Errorf("%s does not read the machine's clock (any more)", path)
		}
	}
	if n := len(readsClock); n != mostClockReaders {
		t.Errorf("%d files read the machine's clock, and mostClockReaders is %d", n, mostClockReaders)
	}
}

// clockReads returns where a file names time.Now other than for the deadline of a connection, or to fill a field now
// with.
func (s source) clockReads() (found []token.Position) {
	deadlines := []string{"SetDeadline", "SetReadDeadline", "SetWriteDeadline", "WriteControl"}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			callee, ok := x.Fun.(*ast.SelectorExpr)
			return !ok || !slices.Contains(deadlines, callee.Sel.Name)
		case *ast.KeyValueExpr:
			field, ok := x.Key.(*ast.Ident)
			return !ok || !strings.EqualFold(field.Name, "now") || !isTimeNow(x.Value)
		case *ast.AssignStmt:
			field, ok := x.Lhs[0].(*ast.SelectorExpr)
			return !ok || !strings.EqualFold(field.Sel.Name, "now") || !isTimeNow(x.Rhs[0])
		case *ast.SelectorExpr:
			if isTimeNow(x) {
				found = append(found, s.position(x))
			}
		}
		return true
	})
	return found
}

// isTimeNow reports whether x is time.Now itself, not a call of it.
func isTimeNow(x ast.Expr) bool {
	now, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := now.X.(*ast.Ident)
	return ok && of.Name == "time" && now.Sel.Name == "Now"
}

// byAddress are ways to touch memory by an address that the runtime or SQLite may have given to something else since:
// a page that is taken away there is a page of the heap, or one of the database on its way to the disk. A fault that is
// turned into a panic hides the same.
var byAddress = []string{"Syscall", "Syscall6", "Syscall9", "SyscallN", "RawSyscall", "RawSyscall6", "Madvise", "Mmap",
	"Munmap", "MmapPtr", "MunmapPtr", "Mprotect", "SYS_MADVISE", "SYS_MMAP", "SYS_MUNMAP", "ProcessVMWritev",
	"VirtualFree", "VirtualProtect", "UnmapViewOfFile", "SetPanicOnFault"}

// ofTestsAlone stands between SQLite and its files in tests. No arrow leads to it, so the program is built without it.
const ofTestsAlone = "internal/testkit/powercut/powercut_linux.go"

func TestRule7_TheProgramTouchesNoMemoryByAddress(t *testing.T) {
	for _, s := range goFiles(t, isNotTest) {
		if s.path == ofTestsAlone {
			continue
		}
		for _, i := range s.file.Imports {
			if i.Path.Value == `"unsafe"` || i.Path.Value == `"C"` {
				t.Errorf("%s imports %s", s.path, i.Path.Value)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if of, ok := n.(*ast.SelectorExpr); ok && slices.Contains(byAddress, of.Sel.Name) {
				t.Errorf("%s: %s touches memory by its address", s.position(n), of.Sel.Name)
			}
			return true
		})
	}
}

// discards are the files in which a property or a fuzz target throws away an input that says nothing.
var discards = []string{"internal/store/sqlite/model_test.go", "approval/args/args_test.go",
	"approval/grantmodel_test.go",
	"approval/shown_test.go",
	"approval/redact/redact_test.go"}

func TestNoTestSkips(t *testing.T) {
	for _, s := range goFiles(t, isTest) {
		if slices.Contains(discards, s.path) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			of, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, _ := of.X.(*ast.Ident)
			skips := slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, of.Sel.Name) && (x == nil || x.Name != "b")
			if skips || x != nil && x.Name == "testing" && of.Sel.Name == "Short" {
				t.Errorf("%s: %s: a test that does not run shows nothing", s.position(n), of.Sel.Name)
			}
			return true
		})
	}
}

// A test waits for what comes (testkit.Eventually, Receive), or has its time in a synctest bubble. What sleeps else
// says on its line why that turns no result: "// bubble:" where only bubbles call it, "// real:" where a stand-in is
// slow.
func TestNoTestSleepsForNothing(t *testing.T) {
	for _, s := range goFiles(t, isTest) {
		for _, at := range s.sleeps() {
			t.Errorf("%s: it sleeps, and does not say why", at)
		}
	}
}

// sleeps returns where a test's file calls time.Sleep outside a bubble and gives no reason for it.
func (s source) sleeps() (found []token.Position) {
	reasons := s.reasons()
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch at := s.position(call); calledAs(call) {
		case "synctest.Test":
			return false
		case "time.Sleep":
			if !reasons[at.Line] {
				found = append(found, at)
			}
		}
		return true
	})
	return found
}

// reasons tells on which lines of a test's file a reason for a wait stands.
func (s source) reasons() map[int]bool {
	lines := map[int]bool{}
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// bubble: ") || strings.HasPrefix(c.Text, "// real: ") {
				lines[s.position(c).Line] = true
			}
		}
	}
	return lines
}

// A test that waits for what does not come fails within testkit.Patience and says what it waited for; a plain receive
// holds up the package until its time is out. What else waits is ended by the test, or is in a bubble, where a
// deadlock is told; where that is not seen here, its line says so as those that sleep do.
func TestNoTestWaitsWithoutABound(t *testing.T) {
	for _, s := range goFiles(t, isTest) {
		for _, at := range s.unbounded() {
			t.Errorf("%s: it waits without a bound (testkit.Receive, Wait, Command), and does not say why", at)
		}
	}
}

// unbounded returns where a test's file receives from a channel, waits for a sync.WaitGroup or has a program that
// nothing ends, outside a bubble, another goroutine and select, and gives no reason for it. The end of a context is
// none of these: it comes with what the context is for.
func (s source) unbounded() (found []token.Position) {
	reasons := s.reasons()
	groups := map[string]bool{}
	var above []ast.Node
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case nil:
			above = above[:len(above)-1]
			return false
		case *ast.ValueSpec:
			if of, ok := x.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "WaitGroup" {
				for _, name := range x.Names {
					groups[name.Name+".Wait"] = true
				}
			}
		case *ast.CallExpr:
			at, called := s.position(x), calledAs(x)
			if (groups[called] || called == "exec.Command") && !reasons[at.Line] {
				found = append(found, at)
			}
			if called == "synctest.Test" {
				return false
			}
		case *ast.FuncLit:
			if runsElsewhere(x, above) {
				return false
			}
		case *ast.UnaryExpr:
			at := s.position(x)
			if x.Op == token.ARROW && !isDone(x.X) && !isCase(above, x) && !reasons[at.Line] {
				found = append(found, at)
			}
		}
		above = append(above, n)
		return true
	})
	return found
}

// runsElsewhere tells whether a function that stands below these nodes is called by another goroutine: it is started
// as one, or it is handed to, or kept in, what is tested or a fake. A test's own are those that take a *testing.T, are
// called at once, or are handed to what calls them at once.
func runsElsewhere(fn *ast.FuncLit, above []ast.Node) bool {
	for _, p := range fn.Type.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if s, ok := star.X.(*ast.SelectorExpr); ok && (s.Sel.Name == "T" || s.Sel.Name == "B") {
				return false
			}
		}
	}
	switch parent := above[len(above)-1].(type) {
	case *ast.CallExpr:
		if parent.Fun == ast.Expr(fn) {
			_, ok := above[len(above)-2].(*ast.GoStmt)
			return ok
		}
		s, ok := parent.Fun.(*ast.SelectorExpr)
		return !ok || !slices.Contains([]string{"Cleanup", "OnceFunc", "Do"}, s.Sel.Name)
	case *ast.KeyValueExpr:
		return true
	case *ast.AssignStmt:
		_, field := parent.Lhs[0].(*ast.SelectorExpr)
		return field
	}
	return false
}

func isDone(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Done"
}

// isCase tells whether a receive is what a case of a select waits for.
func isCase(above []ast.Node, receive *ast.UnaryExpr) bool {
	for _, n := range slices.Backward(above) {
		if c, ok := n.(*ast.CommClause); ok {
			return c.Comm != nil && c.Comm.Pos() <= receive.Pos() && receive.End() <= c.Comm.End()
		}
	}
	return false
}

// calledAs is package and name of a function that is called.
func calledAs(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// What measures the memory of its process runs alone in it.
func TestNoTestMeasuresMemoryBesideOthers(t *testing.T) {
	for _, s := range goFiles(t, isTest) {
		for _, decl := range s.file.Decls {
			calls := map[string]bool{}
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					calls[calledAs(call)] = true
				}
				return true
			})
			if fn, ok := decl.(*ast.FuncDecl); ok && calls["runtime.ReadMemStats"] && calls["t.Parallel"] {
				t.Errorf("%s: %s measures memory while others use it", s.path, fn.Name.Name)
			}
		}
	}
}

// What docs/security.md claims is shown by tests: each one that it names is there.
func TestTheThreatModelNamesTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, s := range goFiles(t, isTest) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				declared[fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)`").FindAllStringSubmatch(string(doc), -1)
	if len(named) < 40 {
		t.Errorf("docs/security.md names %d tests: hardly a threat model", len(named))
	}
	for _, n := range named {
		if !declared[n[1]] {
			t.Errorf("docs/security.md names %s, which is not there", n[1])
		}
	}
}

// platforms are the packages that may know a platform by its name: those that are one, the stand-ins and those who
// drive them, and what sets a platform up.
var platforms = []string{"channels/line", "channels/slack", "channels/standardwebhooks", "internal/emulator",
	"internal/demo", "internal/setup", "internal/store/storetest"}

// Channels are data: what is decided by a channel's name is decided in the channel's own package. The word webhook
// is left out, which is a listener's and a component's too; the arrows hold who may import that channel.
func TestNoChannelIsKnownByItsName(t *testing.T) {
	names := []string{`"line"`, `"slack"`}
	for _, s := range builtSources(t) {
		if slices.Contains(platforms, s.dir()) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && slices.Contains(names, lit.Value) {
				t.Errorf("%s: %s: a channel is known by its name; ask its kind instead", s.position(n), lit.Value)
			}
			return true
		})
	}
}

// What a person has proven with a passkey is said by the package that checks passkeys, and by nobody else.
func TestOnlyPasskeysProve(t *testing.T) {
	var found []string
	for _, s := range builtSources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if of, ok := n.(*ast.SelectorExpr); ok && of.Sel.Name == "Prove" {
				found = append(found, s.dir())
			}
			return true
		})
	}
	if !slices.Equal(found, []string{"internal/auth/passkey"}) {
		t.Errorf("Prove is used in %v", found)
	}
}
