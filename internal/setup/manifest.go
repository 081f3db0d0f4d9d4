package setup

import (
	"slices"
	"strings"
	"text/template"
)

// slackEvents are what the program is told of by Slack.
var slackEvents = []string{"app_home_opened", "app_mention", "message.im"}

// It holds no comments: it is pasted into Slack's settings.
var manifest = template.Must(template.New("manifest").Parse(`display_information:
  name: Countersign
  description: A person says yes before an AI agent's tool call runs.
features:
  app_home:
    home_tab_enabled: true
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  bot_user:
    display_name: Countersign
    always_online: true
  slash_commands:
    - command: /countersign
{{- with .URL}}
      url: {{.}}
{{- end}}
      description: What waits for your decision
      usage_hint: pending | show ID | approve ID | deny ID REASON | log | status | help
      should_escape: false
oauth_config:
  scopes:
    bot:
{{- range .Scopes}}
      - {{.}}
{{- end}}
settings:
  event_subscriptions:
{{- with .URL}}
    request_url: {{.}}
{{- end}}
    bot_events:
{{- range .Events}}
      - {{.}}
{{- end}}
  interactivity:
    is_enabled: true
{{- with .URL}}
    request_url: {{.}}
{{- end}}
  org_deploy_enabled: false
  socket_mode_enabled: {{.Socket}}
  token_rotation_enabled: false
`))

// Manifest is a Slack app as the program needs it, for Slack's "From a manifest". Taps come to publicURL,
// or over Socket Mode where that is "".
func Manifest(publicURL string) string {
	data := struct {
		URL            string
		Scopes, Events []string
		Socket         bool
	}{Events: slackEvents, Socket: publicURL == ""}
	if publicURL != "" {
		data.URL = quote(strings.TrimRight(publicURL, "/") + "/webhook/slack")
	}
	for _, s := range scopes {
		data.Scopes = append(data.Scopes, s.name)
	}
	slices.Sort(data.Scopes)
	var b strings.Builder
	if err := manifest.Execute(&b, data); err != nil {
		panic("setup: " + err.Error()) // strings, written to memory
	}
	return b.String()
}
