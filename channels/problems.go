package channels

import (
	"net/url"
	"strings"

	"countersign/internal/secret"
)

// Problem is one thing that is wrong with a channel's configuration.
type Problem struct {
	Field   string // as the file spells it: "channel_secret"
	Message string // says what to do, and holds no secret
	Instead string // the field that may stand in this one's place, "" for none
}

// Problems is all that is wrong with a channel's configuration, as its Validate returns it.
type Problems []Problem

func (ps Problems) Error() string {
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = p.Field + ": " + p.Message
	}
	return strings.Join(s, "; ")
}

// In returns each problem as a line, with the section that it is in.
func (ps Problems) In(section string) []string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, section+"."+p.Field+" "+p.Message)
	}
	return lines
}

// Err returns the problems as an error, nil where there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Add appends a problem.
func (ps *Problems) Add(field, message string) {
	*ps = append(*ps, Problem{Field: field, Message: message})
}

// Neither appends the problem that a field is missing, and the one that may stand in its place is too.
func (ps *Problems) Neither(field, instead string) {
	*ps = append(*ps, Problem{Field: field, Message: "is missing; or give " + instead, Instead: instead})
}

// minSecret is how long a secret must be: a shorter one is a placeholder or a slip.
const minSecret = 16

// Secret checks that a secret is there and long enough, and has nothing around it.
func (ps *Problems) Secret(field string, s secret.Value) {
	switch slip := secret.FindSlip(s); {
	case s == "":
		ps.Add(field, "is missing")
	case slip != "":
		ps.Add(field, slip)
	case len(s) < minSecret:
		ps.Add(field, "is shorter than 16 characters")
	case strings.ContainsFunc(string(s), func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }):
		ps.Add(field, "has a space, a quotation mark or another character that no such secret has")
	}
}

// Secrets checks that there is a secret, and that each one is long enough.
func (ps *Problems) Secrets(field string, s secret.List) {
	if len(s) == 0 {
		ps.Add(field, "is missing")
	}
	for _, one := range s {
		ps.Secret(field, one)
	}
}

// URL checks the base address of a platform's API, where one is given.
func (ps *Problems) URL(field, s string) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		ps.Add(field, "must be an http or https address such as https://api.example.com")
	}
}
