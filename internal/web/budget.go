package web

import (
	"net/http"

	"countersign/internal/budget"
)

// takesBack are the forms that only take something back. No budget refuses those, nor a denial.
var takesBack = map[string]bool{
	"/r/{id}/cancel": true, "/r/{id}/freeze": true, "/people/freeze": true, "/people/delegations/{id}/end": true,
	"/grants/{id}/revoke": true, pathPasskeys + "/remove": true, pathSessions: true,
}

// account is the viewer's, which their token's requests over the API use too. What may be anybody's on this machine has
// one apart.
func (x *exchange) account() *budget.Account {
	a := x.s.Budgets.Account(budget.Of(x.viewer.Actor))
	if !x.isViewers() {
		return a.Apart()
	}
	return a
}

// charge takes a request out of the viewer's budgets. path is its route's.
func (x *exchange) charge(path string) error {
	spared, size := false, int64(0)
	if x.r.Method == http.MethodPost {
		if size = x.r.ContentLength; size < 0 {
			size = maxForm // it does not say, which no browser leaves out
		}
		spared = takesBack[path]
		if path == "/decide" || path == "/r/{id}/decide" {
			form, err := x.Form()
			if err != nil {
				return err
			}
			spared = form.Get("do") == "deny"
		}
	}
	if spared {
		x.account().Charge(int(size))
		return nil
	}
	if err := x.account().Take(budget.Calls, 1); err != nil || size == 0 {
		return err
	}
	return x.account().Take(budget.Bytes, int(size))
}
