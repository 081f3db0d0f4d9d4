package mcp

// ParamHeader is a parameter of a tool that is mirrored in a header of modern HTTP requests, as the
// tool's input schema asks with x-mcp-header.
type ParamHeader struct {
	Path   []string // of the argument
	Header string   // the full name: Mcp-Param-…
}
