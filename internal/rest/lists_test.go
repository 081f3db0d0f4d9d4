package rest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

func ids(list []map[string]any) (ids []string) {
	for _, m := range list {
		ids = append(ids, m["id"].(string))
	}
	return ids
}

func TestRequestsAreListedNewestFirstInPages(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 7 {
		want = append(want, w.ask(asked(i)))
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 3, 7, 8, 50, 200} {
		var got []string
		after := ""
		for pages := 0; ; pages++ {
			r := w.do(hanaToken, "GET", fmt.Sprintf("/v1/approvals?limit=%d%s", limit, after), "").is(200)
			page := ids(r.list("approvals"))
			if len(page) > limit || pages > len(want) {
				t.Fatalf("limit %d: a page of %d", limit, len(page))
			}
			got = append(got, page...)
			if r.at("next") == nil {
				break
			}
			after = "&after=" + r.str("next")
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	if r := w.do(guestToken, "GET", "/v1/approvals?status=denied",
		"").is(200); string(r.body) != `{"approvals":[],"next":null}` {
		t.Errorf("an empty list is %s", r.body)
	}
}

func TestFiftyRequestsAreAPage(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		var calls []string
		for j := range 20 {
			calls = append(calls, asked(100*i+j))
		}
		w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+strings.Join(calls, ",")+`]}`).is(200)
	}
	r := w.do(hanaToken, "GET", "/v1/approvals", "").is(200)
	if n := len(r.list("approvals")); n != 50 || r.at("next") == nil {
		t.Errorf("%d requests, next %v", n, r.at("next"))
	}
	if n := len(w.do(hanaToken, "GET", "/v1/approvals?limit=200", "").is(200).list("approvals")); n != 100 {
		t.Errorf("%d requests of 100", n)
	}
}

func TestRequestsAreSelected(t *testing.T) {
	w := newWorld(t)
	transfer1 := w.ask(asked(1))
	remote := w.ask(`{"tool":"transfer","server":"bank"}`)
	deploy := w.ask(`{"tool":"deploy"}`)
	others := w.do(otherToken, "POST", "/v1/calls", asked(1)).is(202).str("approval_id")
	w.decide(hanaToken, transfer1, "approve", "").is(200)
	for query, want := range map[string][]string{
		"":                                {others, deploy, remote, transfer1},
		"status=pending":                  {others, deploy, remote},
		"status=approved":                 {transfer1},
		"agent=other":                     {others},
		"risk_level=critical":             {deploy},
		"tool=bank/transfer":              {remote},
		"tool=transfer&agent=other":       {others},
		"agent=nobody":                    nil,
		"status=pending&risk_level=high":  {others, remote},
		"after=" + deploy:                 {remote, transfer1},
		"status=expired&tool=transfer":    nil,
		"limit=1&after=" + remote:         {transfer1},
		"tool=deploy&status=pending":      {deploy},
		"agent=bot&tool=deploy&limit=200": {deploy},
	} {
		if got := ids(w.do(guestToken, "GET", "/v1/approvals?"+query, "").is(200).list("approvals")); !slices.Equal(got,
			want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	w.clock.Advance(time.Hour)
	if got := ids(w.do(guestToken, "GET", "/v1/approvals?status=pending", "").is(200).list("approvals")); got != nil {
		t.Errorf("at their deadline %v are pending", got)
	}
}

func TestRule12_APageOfLargeArgsEndsEarly(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 8 { // twice four, so that a page ends where the list does
		want = append(want, w.ask(fmt.Sprintf(`{"tool":"transfer","args":{"n":%d,"text":"%s"}}`, i,
			strings.Repeat("x", 1<<20-100))))
	}
	slices.Reverse(want)
	var got []string
	for path, pages := "/v1/approvals", 1; ; pages++ {
		r := w.do(hanaToken, "GET", path, "").is(200)
		page := ids(r.list("approvals"))
		if got = append(got, page...); len(page) != 4 || pages > 2 {
			t.Fatalf("page %d has %d requests of 1 MiB, want 4", pages, len(page))
		}
		if r.at("next") == nil {
			break
		}
		path = "/v1/approvals?after=" + r.str("next")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, id := range want {
		w.decide(hanaToken, id, "deny", "").is(200)
	}
	for range 2 {
		feed := ids(w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200).list("approvals"))
		if len(feed) != 4 {
			t.Fatalf("the feed brings %d requests of 1 MiB, want 4", len(feed))
		}
		w.do(botToken, "POST", "/v1/approvals/ack", `{"ids":["`+strings.Join(feed, `","`)+`"]}`).is(200)
	}
	if rest := ids(w.do(botToken, "GET", "/v1/approvals/resolved", "").is(200).list("approvals")); len(rest) != 0 {
		t.Errorf("%d are left", len(rest))
	}
}

// An answer looks at a part of the record where little of it is what is asked for: then it has what was found so far,
// be it nothing, and where to go on. Whoever goes on finds each row once.
func TestAnAnswerHasWhatWasFoundSoFarAndWhereToGoOn(t *testing.T) {
	w := newWorld(t)
	var decided, all []string
	for i := range 12 {
		id := w.ask(asked(i))
		if all = append(all, id); i%5 == 0 {
			w.decide(hanaToken, id, "approve", "").is(200)
			decided = append(decided, id)
		}
	}
	slices.Reverse(decided)
	failed := w.failNotification(all[1])
	for _, c := range []struct {
		path, list, key string
		want            []string
	}{
		{"/v1/approvals?status=approved", "approvals", "id", decided},
		{"/v1/approvals?status=approved&limit=2", "approvals", "id", decided},
		{"/v1/approvals?agent=nobody", "approvals", "id", nil},
		{"/v1/audit?actor=hana&limit=200", "events", "approval_id", decided},
		{"/v1/audit?tool=nothing", "events", "id", nil},
		{"/v1/notifications?status=failed", "notifications", "id", []string{failed}},
		{"/v1/notifications?channel=nothing", "notifications", "id", nil},
	} {
		pages := func() (got []string, n int) {
			for next := ""; ; {
				r := w.do(hanaToken, "GET", c.path+next, "").is(200)
				if n++; n > 100 {
					t.Fatalf("%s: no end", c.path)
				}
				for _, row := range r.list(c.list) {
					got = append(got, row[c.key].(string))
				}
				if r.at("next") == nil {
					return got, n
				}
				next = "&after=" + r.str("next")
			}
		}
		w.rest.look = looking{rows: 2, time: time.Hour}
		got, whole := pages()
		w.rest.look.time = 0 // one step for each answer
		inParts, parts := pages()
		if !slices.Equal(got, c.want) || !slices.Equal(inParts, c.want) {
			t.Errorf("%s: got %v, and %v in parts; want %v", c.path, got, inParts, c.want)
		}
		if whole > 1+len(c.want)/2 || parts < 3 && c.list != "notifications" {
			t.Errorf("%s: %d answers, and %d in parts", c.path, whole, parts)
		}
	}
	w.rest.look = looking{rows: 2}
	csv := string(w.do(hanaToken, "GET", "/v1/audit?actor=hana&format=csv", "").is(200).body)
	if n := strings.Count(csv, "\n"); n != 1+len(decided) {
		t.Errorf("an export of what lies far apart has %d lines, want %d:\n%s", n, 1+len(decided), csv)
	}
}

func TestTheNotificationLogIsListedAndSelected(t *testing.T) {
	w := newWorld(t)
	a, b := w.ask(asked(1)), w.ask(asked(2))
	batch := w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+asked(3)+`,`+asked(4)+`]}`).is(200).list("results")
	failed := w.failNotification(a)
	all := w.do(rootToken, "GET", "/v1/notifications", "").is(200)
	if n := len(all.list("notifications")); n != 3 || all.at("next") != nil {
		t.Fatalf("%d notifications, next %v", n, all.at("next"))
	}
	newest := ids(all.list("notifications"))[0]
	for query, want := range map[string][]string{
		"status=failed":            {failed},
		"status=sent":              nil,
		"channel=slack":            nil,
		"approval_id=" + a:         {failed},
		"approval_id=" + b:         ids(all.list("notifications"))[1:2],
		"approval_id=" + unknownID: nil,
		"limit=1":                  {newest},
		// The card of a batch shows each of its requests.
		"approval_id=" + batch[0]["approval_id"].(string): {newest},
		"approval_id=" + batch[1]["approval_id"].(string): {newest},
	} {
		if got := ids(w.do(rootToken, "GET", "/v1/notifications?"+query, "").is(200).list("notifications")); !slices.Equal(
			got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	var got []string
	for after := ""; ; {
		r := w.do(rootToken, "GET", "/v1/notifications?limit=2"+after, "").is(200)
		got = append(got, ids(r.list("notifications"))...)
		if r.at("next") == nil {
			break
		}
		after = "&after=" + r.str("next")
	}
	if !slices.Equal(got, ids(all.list("notifications"))) {
		t.Errorf("in pages: %v", got)
	}
}

func TestTheAuditLogIsListedAndSelected(t *testing.T) {
	w := newWorld(t)
	w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file","args":{"password":"hunter2-hunter2"}}`).is(200)
	w.clock.Advance(time.Minute)
	id := w.ask(transfer)
	w.clock.Advance(time.Minute)
	w.decide(hanaToken, id, "deny", "no").is(200)
	types := func(query string) (ts []string) {
		t.Helper()
		for _, e := range w.do(rootToken, "GET", "/v1/audit?"+query, "").is(200).list("events") {
			ts = append(ts, e["event_type"].(string))
		}
		return ts
	}
	for query, want := range map[string][]string{
		"":                               {"hitl_decision", "approval_requested", "call_allowed"},
		"event_type=hitl_decision":       {"hitl_decision"},
		"decision=deny":                  {"hitl_decision"},
		"decision=approve":               nil,
		"risk_level=low":                 {"call_allowed"},
		"tool=transfer":                  {"hitl_decision", "approval_requested"},
		"agent=other":                    nil,
		"actor=hana":                     {"hitl_decision"},
		"user=hana":                      {"hitl_decision"},
		"user=hana&actor=hana":           {"hitl_decision"},
		"since=2026-11-21T10:01:00Z":     {"hitl_decision", "approval_requested"},
		"until=2026-11-21T10:01:00Z":     {"call_allowed"}, // exclusive
		"until=2026-11-21T10:01:00.001Z": {"approval_requested", "call_allowed"},
		"since=2026-11-21T19:01:00%2B09:00&until=2026-11-21T10:02:00Z": {"approval_requested"},
	} {
		if got := types(query); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	w.do(rootToken, "GET", "/v1/audit?user=hana&actor=ken", "").is(400, approval.CodeInvalidParameter)
	w.do(rootToken, "GET", "/v1/audit?user=hana&actor=ken&format=csv", "").is(400, approval.CodeInvalidParameter)
	r := w.do(rootToken, "GET", "/v1/audit", "").is(200)
	if strings.Contains(string(r.body), "hunter2") {
		t.Error("the audit log shows a secret")
	}
	want := strings.Fields(
		"actor agent approval_id at correlation_id data decision event_type id reason risk_level seq tool")
	if got := names(r.list("events")[0]); !slices.Equal(got, want) {
		t.Errorf("an event has %v", got)
	}
	var got []string
	for after := ""; ; {
		r := w.do(rootToken, "GET", "/v1/audit?limit=1"+after, "").is(200)
		got = append(got, ids(r.list("events"))...)
		if r.at("next") == nil {
			break
		}
		after = "&after=" + r.str("next")
	}
	if !slices.Equal(got, ids(r.list("events"))) {
		t.Errorf("in pages: %v", got)
	}
}

func TestEveryEventTypeAndDecisionCanBeSelected(t *testing.T) {
	w := newWorld(t)
	for _, e := range approval.EventTypes {
		w.do(rootToken, "GET", "/v1/audit?event_type="+string(e), "").is(200)
	}
	for _, d := range approval.EventDecisions {
		w.do(rootToken, "GET", "/v1/audit?decision="+d, "").is(200)
	}
	for _, s := range []approval.NotificationStatus{"queued", "retrying", "sent", "delivered", "failed", "skipped"} {
		w.do(rootToken, "GET", "/v1/notifications?status="+string(s), "").is(200)
	}
}
