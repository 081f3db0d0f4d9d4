package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// platforms starts stand-ins for LINE and Slack. A script finds their secrets in its environment, under
// names that nothing reads by itself.
func platforms(e *testscript.Env) error {
	chats, err := emulator.New(emulator.Config{
		LINE: emulator.LINEConfig{ChannelSecret: "8c570fa6dd201bb328f1c1eac23a96d8",
			ChannelAccessToken: "line-token-0123456789"},
		Slack: emulator.SlackConfig{BotToken: "xoxb-token-0123456789", AppToken: "xapp-token-0123456789",
			SigningSecret: "8f742231b10e8888abcd99yyyzzz85a5"},
		People: []emulator.Person{{Name: "hana", LINE: "U4af4980629d1e4b8c9a2c1b2d3e4f5a6", Slack: "U02HANA"}},
	})
	if err != nil {
		return err
	}
	if err := chats.Start("127.0.0.1:0"); err != nil {
		return err
	}
	e.Defer(func() { chats.Close() })
	e.Values["chats"] = chats
	for name, value := range map[string]string{
		"LINE_SECRET": "8c570fa6dd201bb328f1c1eac23a96d8", "LINE_TOKEN": "line-token-0123456789",
		"HANA_LINE":   "U4af4980629d1e4b8c9a2c1b2d3e4f5a6",
		"SLACK_TOKEN": "xoxb-token-0123456789", "SLACK_SECRET": "8f742231b10e8888abcd99yyyzzz85a5",
		"SLACK_SOCKET": "xapp-token-0123456789",
	} {
		e.Setenv(name, value)
	}
	return nil
}

// rehearse has a configuration talk to the stand-ins, and them to it.
func rehearse(ts *testscript.TestScript, _ bool, args []string) {
	chats := ts.Value("chats").(*emulator.Emulator)
	text := ts.ReadFile(args[0])
	text = regexp.MustCompile(`(?m)^  line:.*$`).ReplaceAllString(text, "$0\n    api_url: "+chats.LINE.URL())
	text = regexp.MustCompile(`(?m)^  slack:.*$`).ReplaceAllString(text, "$0\n    api_url: "+chats.Slack.URL())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
	at := "http://127.0.0.1:" + ts.Getenv("HOOKS_PORT")
	chats.SetWebhooks(at+"/webhook/line", at+"/webhook/slack")
}

// tapping runs countersign verify, and taps Approve as hana when it asks for it: tapping line|slack CODE
// ARG... What it prints is in verify.out.
func tapping(ts *testscript.TestScript, _ bool, args []string) {
	chats := ts.Value("chats").(*emulator.Emulator)
	countersign, err := exec.LookPath("countersign")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, countersign, append([]string{"verify"}, args[2:]...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"COUNTERSIGN_TOKEN=" + ts.Getenv("COUNTERSIGN_TOKEN"), "COUNTERSIGN_SERVER=" +
		ts.Getenv("COUNTERSIGN_SERVER"), "GORACE=atexit_sleep_ms=0"}
	var out bytes.Buffer
	cmd.Stdout = &out
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	for lines := bufio.NewScanner(said); lines.Scan(); {
		ts.Logf("%s", lines.Text())
		if !strings.HasPrefix(lines.Text(), "Now tap Approve") {
			continue
		}
		if args[0] == "line" {
			_, err = chats.LINE.Tap(ctx, "hana", "", "Approve")
		} else {
			_, err = chats.Slack.Tap(ctx, "hana", "C0APPROVALS", "", "approve", "")
		}
		ts.Check(err)
	}
	cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("verify.out"), out.Bytes(), 0o644))
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("exit code %s, want %s\n%s", got, args[1], out.String())
	}
}

func TestEnvFile(t *testing.T) {
	for _, tt := range []struct {
		text, err string
		want      map[string]string
	}{
		{"", "", map[string]string{}},
		{"# a comment\n\nA=1\n  B_2 = two words \nC=\nD='x y'\nE=\"q\"\nF=a=b#c\nG='\n", "", map[string]string{"A": "1",
			"B_2": "two words", "C": "", "D": "x y", "E": "q", "F": "a=b#c", "G": "'"}},
		{"\ufeffA=1\r\nB=2\r\n", "", map[string]string{"A": "1", "B": "2"}},
		{"A=1\nsecret-without-a-name\n", "x.env:2: this is not NAME=value", nil},
		{"export A=1\n", "x.env:1: this is not NAME=value", nil},
		{"1A=1\n", "x.env:1: this is not NAME=value", nil},
		{"A=1\nB=2\nA=3\n", "x.env:3: A is listed twice; remove one", nil},
		{"A=" + strings.Repeat("secret", 1<<20/6+1) + "\n", "x.env: it is longer than 1 MiB", nil},
		{strings.Repeat("\n", 1<<20-4) + "A=secret\n", "x.env: it is longer than 1 MiB", nil},
		{"A=" + strings.Repeat("x", 100_000) + "\n", "", map[string]string{"A": strings.Repeat("x", 100_000)}},
	} {
		path := filepath.Join(t.TempDir(), "x.env")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, names, err := readEnv(path)
		if tt.err != "" {
			if err == nil || !strings.HasSuffix(err.Error(), tt.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: error %v, want %s", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) || len(names) != len(tt.want) {
			t.Errorf("%q: %q in the order %q, error %v; want %q", tt.text, got, names, err, tt.want)
		}
	}
}

func TestDefaultsOfInit(t *testing.T) {
	with := func(env map[string]string) *std {
		return &std{env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	}
	for want, env := range map[string]map[string]string{
		"hana": {"USER": "hana"}, "me": {"USER": "root"}, "ken": {"USER": "a b", "LOGNAME": "ken"},
	} {
		if got := userName(with(env)); got != want {
			t.Errorf("%v: person %q, want %q", env, got, want)
		}
	}
	for want, env := range map[string]map[string]string{
		"ja": {"LANG": "ja_JP.UTF-8"}, "zh-TW": {"LANG": "zh_TW.UTF-8"}, "th": {"LC_ALL": "th_TH", "LANG": "en_US"},
		"en": {"LANG": "C"},
	} {
		if got := language(with(env)); got != want {
			t.Errorf("%v: language %q, want %q", env, got, want)
		}
	}
	if got := language(with(map[string]string{"LANG": "zh_CN.UTF-8"})); got != "en" {
		t.Errorf("zh_CN: language %q", got)
	}
	if got := timeZone(with(map[string]string{"TZ": "Asia/Tokyo"})); got != "Asia/Tokyo" {
		t.Errorf("zone %q", got)
	}
	if got := timeZone(with(map[string]string{"TZ": "Etc/UTC"})); got != "UTC" {
		t.Errorf("zone %q", got)
	}
}
