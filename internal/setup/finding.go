package setup

// Level says how much a finding matters.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, but perhaps not for long, or not as meant
	Problem Level = "problem" // it does not work
)

// Finding is one thing that was looked at or tried.
type Finding struct {
	Channel string `json:"channel"` // line, slack, webhook, openid, or gate for what is of none
	Level   Level  `json:"level"`
	Message string `json:"message"`      // what was found
	Do      string `json:"do,omitempty"` // what to do about it
}

// Watch is told of findings as they come, and of what is being done before each. Both may be nil.
type Watch struct {
	Found func(Finding)
	Doing func(what string)
}

// gate is the Channel of what concerns no platform, openID that of the provider that people sign in at.
const gate, openID = "gate", "openid"

func (w Watch) report(channel string, level Level, message, do string) {
	if w.Found != nil {
		w.Found(Finding{channel, level, message, do})
	}
}

func (w Watch) ok(channel, message string)          { w.report(channel, OK, message, "") }
func (w Watch) warning(channel, message, do string) { w.report(channel, Warning, message, do) }
func (w Watch) problem(channel, message, do string) { w.report(channel, Problem, message, do) }

func (w Watch) doing(what string) {
	if w.Doing != nil {
		w.Doing(what)
	}
}
