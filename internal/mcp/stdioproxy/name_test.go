package stdioproxy

import (
	"regexp"
	"strings"
	"testing"
)

func TestAServerIsNamedAfterItsProgram(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /data":                 "server-filesystem",
		"npx @playwright/mcp@latest":                                                     "playwright",
		"npx.cmd -y mcp-remote https://x.example/mcp":                                    "mcp-remote",
		"npx --yes --package @scope/tools@1.2.3 mcp-tools serve":                         "mcp-tools",
		"npx -p=@scope/tools -- mcp-tools":                                               "mcp-tools",
		"npm exec -y -- @scope/server-git":                                               "server-git",
		"pnpm dlx @scope/server-git@^1":                                                  "server-git",
		"yarn dlx server-git":                                                            "server-git",
		"bunx server-git@1":                                                              "server-git",
		"bun run ./src/tickets.ts":                                                       "tickets",
		"uvx mcp-server-git --repository /data":                                          "mcp-server-git",
		"uvx mcp-server-git==1.2.3":                                                      "mcp-server-git",
		"uvx mcp-server-git@latest":                                                      "mcp-server-git",
		"uvx --from git+https://example.com/x/y mcp-server-y":                            "mcp-server-y",
		"uvx --python 3.12 --with rich mcp-server-time[all]":                             "mcp-server-time",
		"uv run --directory /srv/weather weather.py":                                     "weather",
		"uv tool run mcp-server-fetch":                                                   "mcp-server-fetch",
		"uv --directory /srv/weather run python -m weather.server":                       "weather-server",
		"pipx run --spec mcp-x==1 mcp-server-x":                                          "mcp-server-x",
		"docker run -i --rm -e X mcp/fetch":                                              "fetch",
		"docker run -i --rm -e X=y -v /a:/b --name foo ghcr.io/org/tickets:1.2":          "tickets",
		"docker run --rm -i --env-file=.env --network host localhost:5000/a/b@sha256:00": "b",
		"docker run -i --rm --mount type=bind,src=/a,dst=/b mcp/filesystem /b":           "filesystem",
		"docker exec -i tickets /server":                                                 "tickets",
		"podman run -it registry.example/mcp/time":                                       "time",
		"node /opt/tickets/dist/index.js --stdio":                                        "tickets",
		"node --env-file .env build/index.js":                                            "index",
		"node --require ./a.js server-git.mjs":                                           "server-git",
		"/usr/local/bin/node --max-old-space-size=100 /srv/git-server/main.js":           "git-server",
		"python -m mcp_server_git --repository /data":                                    "mcp_server_git",
		"python3.12 -u /srv/weather/server.py":                                           "weather",
		"python3 -X dev -W ignore weather.py":                                            "weather",
		"/srv/venv/bin/python /srv/mail.py":                                              "mail",
		"java -jar /opt/tickets-1.2.jar --stdio":                                         "tickets-1-2",
		"java -cp /a:/b -Dx=y com.example.Tickets":                                       "com-example-Tickets",
		"deno run --allow-net --config deno.json jsr:@scope/tickets@1":                   "tickets",
		"dotnet run --project Tickets.csproj":                                            "Tickets",
		"dotnet /srv/Tickets.dll":                                                        "Tickets",
		"go run example.com/cmd/tickets@latest":                                          "tickets",
		"cargo run --bin tickets":                                                        "tickets",
		"env A=b DEBUG=1 npx -y server-git":                                              "server-git",
		"cmd /c npx -y @scope/server-git@1":                                              "server-git",
		`C:\Program_Files\nodejs\node.exe C:\srv\tickets\dist\index.js`:                  "tickets",
		`C:\srv\Tickets.EXE`:                                                             "Tickets",
		"/usr/local/bin/github-mcp-server stdio":                                         "github-mcp-server",
		"./my-server --stdio":                                                            "my-server",
		"npx":                                                                            "npx",
		"docker run -i --rm":                                                             "docker",
		"_-_":                                                                            "server",
		"日本語":                                                                            "server",
		strings.Repeat("a", 31) + "-b":                                                   strings.Repeat("a", 31),
	} {
		if got := NameOf(strings.Split(command, " ")); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", command, got, want)
		}
	}
	if got := NameOf([]string{"sh", "-c", "exec npx -y @scope/server-git@1"}); got != "server-git" {
		t.Errorf("sh -c: got %s", got)
	}
}

func FuzzNameOf(f *testing.F) {
	f.Add("npx\x00-y\x00@a/b@1")
	f.Add("")
	f.Add("docker\x00run\x00-e")
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	f.Fuzz(func(t *testing.T, words string) {
		if got := NameOf(strings.Split(words, "\x00")); !valid.MatchString(got) {
			t.Errorf("%q: got %q", words, got)
		}
	})
}

func TestTheScopeTellsServersApartAndShowsNoArgument(t *testing.T) {
	t.Parallel()
	a := Scope("/home/hana/project", []string{"server", "--key", "very-private"})
	if !regexp.MustCompile(`^/home/hana/project \(command [0-9a-f]{8}\)$`).MatchString(a) {
		t.Errorf("got %q", a)
	}
	for name, b := range map[string]string{
		"another folder":          Scope("/home/hana/other", []string{"server", "--key", "very-private"}),
		"another argument":        Scope("/home/hana/project", []string{"server", "--key", "other"}),
		"words cut otherwise":     Scope("/home/hana/project", []string{"server", "--key very-private"}),
		"a word more":             Scope("/home/hana/project", []string{"server", "--key", "very-private", ""}),
		"length that looks alike": Scope("/home/hana/project", []string{"server1 ", "--key", "very-private"}),
	} {
		if a == b {
			t.Errorf("%s: the same scope %q", name, b)
		}
	}
	if long := Scope("/"+strings.Repeat("é", 2000), []string{"x"}); len(long) > 1024 || !strings.HasPrefix(long, "…") ||
		strings.Contains(long, "\uFFFD") {
		t.Errorf("got %d bytes: %.40q", len(long), long)
	}
}
