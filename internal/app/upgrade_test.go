package app_test

import (
	"compress/gzip"
	"io"
	"os"
	"testing"
	"time"

	"countersign/client"
)

// What the program of schema 7 left is gone on with: what waited is joined by the same call, and its old card decides;
// what was approved lets one call through; what was denied, used or cancelled stays so.
func TestWhatWaitedSurvivesAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	packed, err := os.Open("../store/sqlite/testdata/schema7.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{w.env["STORE"]: old, w.env["STORE"] + ".mark": []byte("1\n")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	w.now = func() time.Time { return time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC).Add(time.Since(begun)) }
	w.start()
	call := func(to string) client.Call {
		return client.Call{Tool: "transfer_credits", Args: []byte(`{"amount_cents":5000,"to":"` + to + `"}`)}
	}

	a := w.expect(call("pending"), client.AnswerPending)
	if want := "01M83BAD8CDNSATWFHKG0X2JWJ"; a.ApprovalID != want {
		t.Errorf("the same call made %s, and did not join %s", a.ApprovalID, want)
	}
	w.tapLINE("hana", a.ApprovalID, "approve")
	w.told("Approved")
	w.expect(call("pending"), client.AnswerApproved)
	if again := w.expect(call("pending"), client.AnswerPending); again.ApprovalID == a.ApprovalID {
		t.Error("the approval was used and is joined")
	}

	if a := w.expect(call("approved"), client.AnswerApproved); a.ApprovalID != "01M83BAD8Q1YYZ0G8ZE5R4HP0C" {
		t.Errorf("let through by %s", a.ApprovalID)
	}
	w.expect(call("approved"), client.AnswerPending)
	for id, want := range map[string]string{
		"01M83BAD908WATKT7SPETFQKF4": "approved", "01M83BAD94SKZYFDKT22F2450P": "denied",
		"01M83BAD98HX1HGSEJP38GCM37": "cancelled", "01M83BAD9DNAKZVZMR6DVZGMZY": "cancelled",
		"01M83BAD9HNY3MYHF2BXGKBD8P": "expired",
	} {
		if got := w.status(id).Status; string(got) != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}
