package downstream

import "countersign/internal/mcp"

const (
	maxMessage = 4 << 20 // bytes of one message
	// maxRequest is how many of them a request or notification may have: as many as any other body that the
	// gate takes. What a client answers to a server's question is not counted, since it may hold images.
	maxRequest = 1 << 20
)

// checkSize refuses a request or notification of size bytes that has too many.
func checkSize(m mcp.Message, size int64) *mcp.Error {
	if m.Method == "" || size <= maxRequest {
		return nil
	}
	// Of a modern client an answer comes with the request that it tries again, and with the server's own state.
	if params, err := mcp.ReadObject(m.Params); err == nil {
		size -= int64(len(params.Get("inputResponses")) + len(params.Get("requestState")))
	}
	if size <= maxRequest {
		return nil
	}
	return mcp.Errorf(mcp.CodeInvalidRequest,
		"Invalid request: the message has %d bytes, and at most %d are taken. Nothing was run; send less at once.", size,
		maxRequest)
}
