package rest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
)

const (
	// maxWait is how long an answer is held at most; who asks for more gets this.
	maxWait      = 60 * time.Second
	defaultLimit = 50
	maxLimit     = 200
)

// readQuery reads what the route takes from the query. Whatever is wrong is kept for the moment at
// which it may be told.
func (x *exchange) readQuery() {
	if x.r.URL.RawQuery == "" {
		return
	}
	var err error
	if x.query, err = url.ParseQuery(x.r.URL.RawQuery); err != nil {
		x.formErr = approval.Errorf(approval.CodeInvalidParameter, "The query cannot be read.")
		return
	}
	for name, values := range x.query {
		known := slices.ContainsFunc(x.route.doc.query, func(p queryParam) bool { return p.name == name })
		switch {
		case !known:
			x.formErr = approval.Errorf(approval.CodeInvalidParameter, "%s is not a parameter of this path.",
				legible.Cut(legible.Line(name), 64))
		case len(values) > 1:
			x.formErr = approval.Errorf(approval.CodeInvalidParameter, "%s is there more than once.", name)
		default:
			continue
		}
		return
	}
	if x.query.Has("wait") {
		x.wait, x.formErr = parseWait(x.query.Get("wait"))
	}
}

// parseWait reads 30s or 30.
func parseWait(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, numErr := strconv.ParseUint(s, 10, 31); numErr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, approval.Errorf(approval.CodeInvalidParameter, "wait must be a time such as 30s, or seconds such as 30.")
	}
	return min(d, maxWait), nil
}

// fields reads query parameters and remembers what was first wrong.
type fields struct {
	query url.Values
	err   error
}

func (f *fields) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = approval.Errorf(approval.CodeInvalidParameter, format, args...)
	}
}

// one reads a parameter that is one of a few words.
func one[T ~string](f *fields, name string, words ...T) T {
	if !f.query.Has(name) {
		return ""
	}
	v := T(f.query.Get(name))
	if !slices.Contains(words, v) {
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		f.refuse("%s must be one of %s.", name, strings.Join(known, ", "))
	}
	return v
}

// matching reads a parameter for which ok must hold.
func (f *fields) matching(name, what string, ok func(string) bool) string {
	if !f.query.Has(name) {
		return ""
	}
	v := f.query.Get(name)
	if !ok(v) {
		f.refuse("%s must be %s.", name, what)
	}
	return v
}

func validTarget(s string) bool {
	server, tool, two := strings.Cut(s, "/")
	return approval.ValidName(server) && (!two || approval.ValidName(tool))
}

// validID reports whether s has the form of a ULID.
func validID(s string) bool {
	if len(s) != 26 || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		if !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", rune(s[i])) {
			return false
		}
	}
	return true
}

func (f *fields) tool() string {
	return f.matching("tool", "a tool's name, or server/tool", validTarget)
}
func (f *fields) agent() string { return f.matching("agent", "an agent's name", approval.ValidName) }
func (f *fields) id(name string) string {
	return f.matching(name, "an id", validID)
}

func (f *fields) risk() approval.Risk {
	return one(f, "risk_level", approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical)
}

func (f *fields) time(name string) time.Time {
	if !f.query.Has(name) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, f.query.Get(name))
	if err != nil {
		f.refuse("%s must be a time such as 2006-01-02T15:04:05Z.", name)
	}
	return t
}

// yes reads a parameter that is true or false.
func (f *fields) yes(name string) bool { return one(f, name, "true", "false") == "true" }

func (f *fields) limit() int {
	if !f.query.Has("limit") {
		return defaultLimit
	}
	n, err := strconv.Atoi(f.query.Get("limit"))
	if err != nil || n < 1 || n > maxLimit {
		f.refuse("limit must be 1 to %d.", maxLimit)
	}
	return n
}
