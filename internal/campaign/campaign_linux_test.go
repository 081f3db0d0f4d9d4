package campaign_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/testkit"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the campaign's seed; 0: 1, or nightly another one each time")
	forFlag   = flag.Duration("for", 0, "how long the campaign goes on; 0: 30s, or nightly ten minutes")
	roundFlag = flag.Duration("round", 0, "how long the load of one round lasts; 0: 8s, or nightly 40s")
	faultFlag = flag.String("faults", "", "the kinds of faults of all rounds, and no others")
	opsFlag   = flag.String("ops", "", "the kinds of operations of all rounds that they could do without, and no others")
	onceFlag  = flag.Bool("first", false, "stop at the first violation, and do not look for a smaller set")
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asDesk:
		deskMain()
	case os.Getenv(wrapperEnv) != "":
		wrapperMain()
	case os.Getenv(gateEnv) != "":
		childMain()
	default:
		os.Exit(m.Run())
	}
}

// TestCampaign plays rounds, each with a store of its own, until the time is over or a promise is broken.
func TestCampaign(t *testing.T) { campaignOn(t, onFile, 30*time.Second) }

func campaignOn(t *testing.T, on flavour, length time.Duration) {
	seed, round := cmp.Or(*seedFlag, 1), cmp.Or(*roundFlag, 8*time.Second)
	if testkit.Nightly() {
		seed, round = cmp.Or(*seedFlag, uint64(time.Now().UnixNano())), cmp.Or(*roundFlag, 40*time.Second)
		length = 10 * time.Minute
	}
	length = cmp.Or(*forFlag, length)
	t.Logf("the campaign's seed is %d", seed)
	counts := map[string]int{}
	began := time.Now()
	for n := 0; n == 0 || time.Since(began) < length && !t.Failed(); n++ {
		p := newPlan(on, seed, n, min(round, max(length-time.Since(began), time.Second)))
		if *faultFlag != "" {
			p.faults = strings.Fields(*faultFlag)
			p.inside = p.inside && !(p.isAlone() && slices.ContainsFunc(p.faults, isOfProcess))
		}
		if *opsFlag != "" {
			p.ops = strings.Fields(*opsFlag)
		}
		t.Run(fmt.Sprint("round ", n), func(t *testing.T) {
			h, found, some := play(t, p)
			for k, v := range some {
				counts[k] += v
			}
			counts["requests"] += len(h.Requests)
			counts["events"] += len(h.Events)
			if len(found) == 0 {
				return
			}
			t.Errorf("with -seed %d, in round %d (%v):\n%s", seed, n, p, told(h, found))
			if !*onceFlag {
				shrink(t, p, found[0].Rule)
			}
		})
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%s %d", k, counts[k]))
	}
	t.Logf("in %s: %s", time.Since(began).Round(time.Second), strings.Join(lines, ", "))
}

// told tells violations, and of the first one the piece of the history that it is about.
func told(h *campaign.History, found []campaign.Violation) string {
	var b strings.Builder
	for i, v := range found {
		if i == 8 {
			fmt.Fprintf(&b, "… and %d more\n", len(found)-i)
			break
		}
		fmt.Fprintln(&b, v)
	}
	b.WriteString("\nthe piece of the history:\n" + campaign.Tell(h, found[0].ID))
	return b.String()
}

// shrink plays a round that broke a rule again with fewer kinds of operations and faults, and tells the smallest set
// with which the rule was still broken. What happens at once may go otherwise each time, so each set is tried twice.
func shrink(t *testing.T, p plan, rule string) {
	breaks := func(p plan) (text string, broken bool) {
		for range 2 {
			var h *campaign.History
			var found []campaign.Violation
			t.Run("again", func(t *testing.T) { h, found, _ = play(t, p) })
			if i := slices.IndexFunc(found, func(v campaign.Violation) bool { return v.Rule == rule }); i >= 0 {
				return told(h, found[i:]), true
			}
		}
		return "", false
	}
	least := ""
	until := time.Now().Add(3 * time.Minute)
	for _, kind := range slices.Concat(p.faults, p.ops) {
		if time.Now().After(until) {
			break
		}
		if text, broken := breaks(p.without(kind)); broken {
			p, least = p.without(kind), text
		}
	}
	if least == "" {
		t.Logf("%q was broken with all of it only, or not again", rule)
		return
	}
	t.Logf("%q is still broken with no more than: %v\n%s", rule, p, least)
}
