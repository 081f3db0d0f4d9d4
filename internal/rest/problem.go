package rest

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"countersign/approval"
)

// Codes that only a way in over HTTP can have.
const (
	codeMethodNotAllowed     approval.Code = "method_not_allowed"
	codeUnknownToken         approval.Code = "unknown_token"
	codeTooLarge             approval.Code = "too_large"
	codeUnsupportedMediaType approval.Code = "unsupported_media_type"
	codeInvalidJSON          approval.Code = "invalid_json"
	codeUnknownField         approval.Code = "unknown_field"
)

// kind is what a code means over HTTP.
type kind struct {
	status int
	title  string
}

var kinds = map[approval.Code]kind{
	approval.CodeUnauthorized:     {http.StatusUnauthorized, "Not authenticated"},
	approval.CodeAgentsOnly:       {http.StatusForbidden, "For agents only"},
	approval.CodePeopleOnly:       {http.StatusForbidden, "For people only"},
	approval.CodeNotAnApprover:    {http.StatusForbidden, "Not an approver"},
	approval.CodeNotAdmin:         {http.StatusForbidden, "Not an admin"},
	approval.CodeNotFound:         {http.StatusNotFound, "Not found"},
	codeMethodNotAllowed:          {http.StatusMethodNotAllowed, "Method not allowed"},
	codeUnknownToken:              {http.StatusUnauthorized, "Unknown token"},
	approval.CodeAlreadyResolved:  {http.StatusConflict, "Already resolved"},
	approval.CodeNotFailed:        {http.StatusConflict, "Not failed"},
	approval.CodeExpired:          {http.StatusGone, "Expired"},
	codeTooLarge:                  {http.StatusRequestEntityTooLarge, "Too large"},
	codeUnsupportedMediaType:      {http.StatusUnsupportedMediaType, "Unsupported media type"},
	approval.CodeAlreadyVoted:     {http.StatusConflict, "Already voted"},
	approval.CodeNotYourStage:     {http.StatusForbidden, "Not your stage"},
	approval.CodePolicyDenied:     {http.StatusUnprocessableEntity, "Policy denied"},
	approval.CodeStepUpRequired:   {http.StatusForbidden, "Passkey required"},
	approval.CodeConfirmRequired:  {http.StatusUnprocessableEntity, "Confirmation required"},
	approval.CodeChanged:          {http.StatusConflict, "Changed"},
	approval.CodeGrantRefused:     {http.StatusUnprocessableEntity, "Grant refused"},
	approval.CodeAmbiguousID:      {http.StatusConflict, "Ambiguous id"},
	approval.CodeReasonRequired:   {http.StatusUnprocessableEntity, "Reason required"},
	approval.CodeTooManyPending:   {http.StatusTooManyRequests, "Too many pending requests"},
	approval.CodeRateLimited:      {http.StatusTooManyRequests, "Too many requests"},
	approval.CodeStoreUnavailable: {http.StatusServiceUnavailable, "Store unavailable"},
	approval.CodeStoreFull:        {http.StatusServiceUnavailable, "Store full"},
	approval.CodeInvalidArgs:      {http.StatusBadRequest, "Invalid args"},
	approval.CodeInvalidTool:      {http.StatusBadRequest, "Invalid tool"},
	codeInvalidJSON:               {http.StatusBadRequest, "Invalid JSON"},
	codeUnknownField:              {http.StatusBadRequest, "Unknown field"},
	approval.CodeInvalidParameter: {http.StatusBadRequest, "Invalid parameter"},
	approval.CodeInternal:         {http.StatusInternalServerError, "Internal error"},
}

// retryAfter is what a client that is turned away is asked to wait, in seconds. Requests that pend end
// by people's hands; the rest is over in a moment.
var retryAfter = map[approval.Code]int{
	approval.CodeTooManyPending:   30,
	approval.CodeRateLimited:      1,
	approval.CodeStoreUnavailable: 2,
	approval.CodeStoreFull:        60, // somebody has to make room
}

// typeOf is the URI that stands for a code as RFC 9457's type.
func typeOf(c approval.Code) string { return "urn:countersign:problem:" + string(c) }

// problemOf is what err may say to who asks, and its status.
func (s *Server) problemOf(x *exchange, err error) (problem, int) {
	p := problem{Code: approval.CodeOf(err)}
	k, known := kinds[p.Code]
	if e, ok := errors.AsType[*approval.Error](err); ok && known && p.Code != approval.CodeInternal {
		p.Detail = e.Message
		if r := e.Request; r != nil && (x.who.Kind == approval.Human || x.who.Kind == approval.Agent &&
			r.Agent == x.who.Name) {
			w := s.request(*r)
			p.Approval = &w
		}
	} else {
		p.Code, k = approval.CodeInternal, kinds[approval.CodeInternal]
		p.Detail = "Something went wrong inside the gate. Its log has it under correlation id " + x.correlation() + "."
	}
	p.Type, p.Title, p.Status = typeOf(p.Code), k.title, k.status
	return p, k.status
}

// writeProblem answers with what err may say.
func (s *Server) writeProblem(x *exchange, err error) {
	p, status := s.problemOf(x, err)
	h := x.Header()
	if status == http.StatusUnauthorized {
		challenge := `Bearer realm="countersign"`
		if x.r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		h.Set("WWW-Authenticate", challenge)
	}
	n := retryAfter[p.Code]
	if e, ok := errors.AsType[*approval.Error](err); ok && e.After > 0 {
		n = int((e.After + time.Second - 1) / time.Second)
	}
	if n > 0 {
		h.Set("Retry-After", strconv.Itoa(n))
	}
	h.Set("Content-Type", "application/problem+json")
	if err := writeBody(x, status, p); err != nil {
		// What a problem is made of can be encoded; but for the request in it, which is not needed.
		p.Approval = nil
		_ = writeBody(x, status, p)
	}
}
