package downstream

import (
	"errors"
	"slices"

	"countersign/internal/mcp"
)

// Why the context of a request ended.
var (
	errClientGone   = errors.New("the client is gone")
	errSessionEnded = errors.New("the session has ended")
	errStopping     = errors.New("the gate stops")
	errAnswered     = errors.New("the request has been answered")
	errCannotAsk    = errors.New("this client cannot be asked")
)

// requestMeta is what a request says about itself in _meta.
type requestMeta struct {
	params  mcp.Object
	meta    mcp.Object
	version string // "": it names none
	modern  bool   // it speaks of a version at all, as only modern requests do
}

func readRequestMeta(m mcp.Message) (requestMeta, *mcp.Error) {
	if m.Params == nil {
		return requestMeta{}, nil
	}
	params, err := mcp.ReadObject(m.Params)
	if err != nil {
		return requestMeta{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err.Reason)
	}
	meta, err := params.Object("_meta")
	if err != nil {
		return requestMeta{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err.Reason)
	}
	v := meta.Get(mcp.MetaVersion)
	return requestMeta{params, meta, mcp.Text(v), v != nil}, nil
}

// validate refuses a modern request whose _meta lacks what each has to carry.
func (c requestMeta) validate() *mcp.Error {
	if c.version == "" {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta needs %q, a string.", mcp.MetaVersion)
	}
	if v := c.meta.Get(mcp.MetaCapabilities); v == nil || v.Kind() != '{' {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta needs %q, an object.", mcp.MetaCapabilities)
	}
	return nil
}

// checkModernVersion refuses a version that modern requests cannot be made in.
func checkModernVersion(version string) *mcp.Error {
	if version == mcp.VersionModern {
		return nil
	}
	return unsupportedVersion(version)
}

func unsupportedVersion(version string) *mcp.Error {
	e := mcp.Errorf(mcp.CodeUnsupportedVersion,
		"Unsupported protocol version. Requests without a session are taken in %s.", mcp.VersionModern)
	e.Data = mcp.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{append([]string{mcp.VersionModern}, mcp.LegacyVersions...), version})
	return e
}

func isLegacyVersion(v string) bool { return slices.Contains(mcp.LegacyVersions, v) }

const (
	methodInitialize = "initialize"
	methodCancelled  = "notifications/cancelled"
)

// errNoInitialize refuses an initialize that is modern in all else.
var errNoInitialize = mcp.Errorf(mcp.CodeMethodNotFound,
	"Method not found: requests that carry their own _meta need no initialize.")
