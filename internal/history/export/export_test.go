package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// written is what a client gets of some rows.
func written[R any](t *testing.T, f Format, columns []Column[R], rows ...R) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	w := New(rec, f, "list", columns)
	n, err := w.Rows(rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := rec.Body.Len(); got < n || n == 0 {
		t.Errorf("%d bytes are told of %d", n, got)
	}
	return rec
}

func TestNoCellIsAFormula(t *testing.T) {
	for v, want := range map[string]string{
		"": "", "a=b": "a=b", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t'=1",
		"\r=1": "'\r'=1",
		"\n=1": "'\n'=1", "＝1": "'＝1", "é": "é", "'=1": "'=1", "\xff=": "\xff=",
		"a;=1": "a;'=1", "a;b; -c": "a;b;' -c", " =1": "' =1", "  \t=1": "  \t'=1", " \" +1": "' \" +1",
		"\u00a0=1": "'\u00a0=1",
		"\u3000@x": "'\u3000@x", "a b": "a b", " a=1": " a=1", "a\n=1": "a\n'=1", "a\r\n@x": "a\r\n'@x", "a\r\nb": "a\r\nb",
		"a\t+1": "a\t'+1", `a;"=1"`: `a;'"=1"`,
		`"=1`: `'"=1`, "\ufeff=1": "'\ufeff=1", "\x00=1": "'\x00=1", "\u200b-1": "'\u200b-1", "a,=1": "a,=1",
	} {
		if got := cell(v); got != want {
			t.Errorf("%q: got %q, want %q", v, got, want)
		}
	}
}

// What was written is read again as it was, whatever stands in it.
func TestCSVIsReadAsItWasWritten(t *testing.T) {
	odd := "a \"quoted\", one\r\nand\ttwo, 日本 <script>"
	e := approval.Event{ID: "01", Seq: 7, Type: approval.EventDecision, Actor: `=HYPERLINK("http://x")`, Reason: odd,
		Data: []byte(`{"a":"b,c"}`)}
	rec := written(t, CSV, Events, e, e)
	rows, err := csv.NewReader(rec.Body).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[0], Head(Events)) {
		t.Fatalf("%v, %v", rows, err)
	}
	cells := map[string]string{}
	for i, name := range rows[0] {
		cells[name] = rows[2][i]
	}
	// encoding/csv reads a line's end as \n
	if cells["seq"] != "7" || cells["actor"] != `'=HYPERLINK("http://x")` || cells["reason"] != strings.ReplaceAll(odd,
		"\r\n", "\n") ||
		cells["data"] != `{"a":"b,c"}` || cells["tool"] != "" {
		t.Errorf("got %q", cells)
	}
	if got := rec.Header().Get("Content-Type"); got != "text/csv; charset=utf-8; header=present" {
		t.Errorf("Content-Type %q", got)
	}
	if got := rec.Header().Get("Content-Disposition"); got != `attachment; filename="list.csv"` {
		t.Errorf("Content-Disposition %q", got)
	}
}

func TestNDJSONHasALineForEachRow(t *testing.T) {
	at := time.Date(2026, 11, 21, 19, 0, 0, 0, time.FixedZone("JST", 9*3600))
	e := approval.Event{ID: "01", Seq: 7, At: at, Type: approval.EventDecision, Actor: "=1\n", Reason: "\xff",
		Data: []byte(`{"n":1}`)}
	rec := written(t, NDJSON, Events, e, approval.Event{})
	lines := strings.Split(strings.TrimSuffix(rec.Body.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	want := `{"id":"01","seq":7,"at":"2026-11-21T10:00:00.000Z","event_type":"hitl_decision","correlation_id":null,` +
		`"actor":"=1\n","approval_id":null,"agent":null,"tool":null,"risk_level":null,"decision":null,"reason":"` + "\ufffd" +
		`","data":{"n":1}}`
	if lines[0] != want {
		t.Errorf("got\n%s, want\n%s", lines[0], want)
	}
	var empty map[string]any
	if err := json.Unmarshal([]byte(lines[1]), &empty); err != nil || empty["data"] != nil || len(empty) != len(Events) {
		t.Errorf("%v, %v", empty, err)
	}
}

// A push that is over has no next attempt, and one that nobody answered no status.
func TestWhatIsNotThereIsNull(t *testing.T) {
	n := approval.Notification{ID: "01", Status: approval.Sent, NextAttemptAt: time.Now()}
	for status, want := range map[approval.NotificationStatus]bool{approval.Sent: false, approval.Failed: false,
		approval.Queued: true, approval.Retrying: true} {
		n.Status = status
		var m map[string]any
		if err := json.Unmarshal(written(t, NDJSON, Notifications, n).Body.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if (m["next_attempt_at"] != nil) != want || m["http_status"] != nil {
			t.Errorf("%s: %v", status, m)
		}
	}
}

// The arguments of a call may hold secrets, and are not in the history's file.
func TestNoArgumentsAreExported(t *testing.T) {
	h := approval.Head{Request: approval.Request{ID: "01", Args: []byte(`{"password":"swordfish"}`),
		Rationale: "swordfish", Preview: "swordfish"}}
	for _, f := range []Format{CSV, NDJSON} {
		if body := written(t, f, Requests, h).Body.Bytes(); bytes.Contains(body, []byte("swordfish")) {
			t.Errorf("%s: %s", f, body)
		}
	}
}

// gone is a client that went away.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

func TestAClientThatIsGoneIsNoticed(t *testing.T) {
	w := New[approval.Event](gone{httptest.NewRecorder()}, CSV, "list", Events)
	if _, err := w.Rows([]approval.Event{{}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err == nil {
		t.Error("nothing was said")
	}
}

func TestAHeadIsAnsweredWithoutRows(t *testing.T) {
	rec := httptest.NewRecorder()
	w := New(rec, CSV, "list", Events)
	w.Begin(http.MethodHead)
	if rec.Body.Len() != 0 || rec.Code != http.StatusOK {
		t.Errorf("%d %q", rec.Code, rec.Body)
	}
}
