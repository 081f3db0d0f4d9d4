package approval_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// killedStore names the store to the test's own process, which is killed.
const killedStore = "COUNTERSIGN_KILLED_GRANT_STORE"

// A use that an agent was told of survives kill -9, and none is counted that is not on record.
func TestGrant_KilledWhileItIsUsed(t *testing.T) {
	sent := transfer
	sent.Dispatch = true
	w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
	if path := os.Getenv(killedStore); path != "" {
		w.open(path, rules{forLonger, terms})
		w.granted(sent, approval.GrantWish{For: time.Hour})
		for {
			fmt.Println("used", w.expect(sent, approval.AnswerAllow).RunID)
		}
	}
	path := schematest.NewFile(t)
	cmd := testkit.Command(t, os.Args[0], "-test.run=^TestGrant_KilledWhileItIsUsed$")
	cmd.Env = append(os.Environ(), killedStore+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "used "); ok && len(id) == 26 {
			told = append(told, id)
		}
		if len(told) == 20 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(told) < 20 {
		t.Fatalf("the child was told of %d uses and ended with %v", len(told), err)
	}
	w.open(path, rules{forLonger, terms})
	for _, id := range told {
		if _, err := w.gate.GrantUse(w.ctx, bot, id); err != nil {
			t.Errorf("the use %s is lost: %v", id, err)
		}
	}
	gs, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{})
	if err != nil || len(gs) != 1 {
		t.Fatalf("%d grants, %v", len(gs), err)
	}
	if n := w.count("grant_used"); gs[0].Used != n || n < len(told) {
		t.Errorf("%d uses are counted, %d on record, %d told", gs[0].Used, n, len(told))
	}
	if n, err := w.gate.Orphaned(w.ctx, ""); n != gs[0].Used+1 || err != nil {
		t.Errorf("of %d calls it is not known what came of them, %v", n, err)
	}
	w.expect(sent, approval.AnswerPending)
}
