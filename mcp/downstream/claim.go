package downstream

import (
	"errors"
	"slices"

	"countersign/mcp"
)

// Why the context of a request ended.
var (
	errGone     = errors.New("the client is gone")
	errEnded    = errors.New("the session has ended")
	errStopping = errors.New("the gate stops")
	errAnswered = errors.New("the request has been answered")
	errNoAsking = errors.New("this client cannot be asked")
)

// claim is what a request says about itself in _meta.
type claim struct {
	params  mcp.Object
	meta    mcp.Object
	version string // "": it claims none
	modern  bool   // it speaks of a version at all, as only modern requests do
}

func readClaim(m mcp.Message) (claim, *mcp.Error) {
	if m.Params == nil {
		return claim{}, nil
	}
	params, err := mcp.ReadObject(m.Params)
	if err != nil {
		return claim{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err.Reason)
	}
	meta, err := params.Object("_meta")
	if err != nil {
		return claim{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err.Reason)
	}
	v := meta.Get(mcp.MetaVersion)
	return claim{params, meta, mcp.Text(v), v != nil}, nil
}

// complete refuses a modern request whose _meta lacks what each has to carry.
func (c claim) complete() *mcp.Error {
	if c.version == "" {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta needs %q, a string.", mcp.MetaVersion)
	}
	if v := c.meta.Get(mcp.MetaCapabilities); v == nil || v.Kind() != '{' {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta needs %q, an object.", mcp.MetaCapabilities)
	}
	return nil
}

// spoken refuses a version that modern requests cannot be made in.
func spoken(version string) *mcp.Error {
	if version == mcp.VersionModern {
		return nil
	}
	return unsupported(version)
}

func unsupported(version string) *mcp.Error {
	e := mcp.Errorf(mcp.CodeUnsupportedVersion, "Unsupported protocol version. Requests without a session are taken in %s.", mcp.VersionModern)
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
var errNoInitialize = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: requests that carry their own _meta need no initialize.")
