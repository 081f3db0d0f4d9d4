package approval_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/summary"
)

// What a rule says of a call is filled in by the gate as it asks, masked, and without what the approval does not cover.
func TestTheGateFillsInWhatARuleSays(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Message, v.IgnoreArgs = "{toolName} pays {args.n} {args.password}{args.why}", []string{"why"}
		v.Sentences = &summary.Sentences{Summary: summary.Wording{"": "Pay {args.n}"},
			Message: summary.Wording{"ja": "{args.why}"}}
		return v
	})
	o := w.check(call(`{"n":1,"password":"hunter2hunter2","why":"x"}`))
	r := o.Request
	if !strings.HasPrefix(r.HumanMessage, "transfer_credits pays 1 “•••• (14 characters") ||
		!strings.HasSuffix(r.HumanMessage, "(none)") || strings.Contains(o.Message, "hunter2") {
		t.Errorf("the message is %q", r.HumanMessage)
	}
	if got := r.Sentences; got.Summary[""] != "Pay 1" || got.Message["ja"] != "（なし）" {
		t.Errorf("the sentences are %v", got)
	}
}
