package app_test

// denySlack presses Deny on a Slack card and fills in the dialog that opens.
func (w *world) denySlack(person, id, reason string) {
	w.t.Helper()
	w.tapSlack(person, id, "deny")
	d := w.ok(w.chat.SubmitView(w.ctx, person, "", typedReason(reason)))
	if len(d.Body) != 0 {
		w.t.Fatalf("the dialog is not closed: %s", d.Body)
	}
}

// typedReason is what a dialog's field holds.
func typedReason(reason string) map[string]map[string]string {
	return map[string]map[string]string{"reason": {"reason_text": reason}}
}
