package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/internal/retention"
)

// growth knows how large the store is, and by how much it grows.
type growth struct {
	store database
	disk  *diskWatch
	log   *slog.Logger
	live  *inForce
	// due is what retention will remove soon, nil where that is not known.
	due func() *retention.Removed

	is   atomic.Pointer[storeSize]
	next time.Time // when it is read again
}

// storeSize is how large a store is. PerDay is how many bytes come in a day; below 0: it is not known.
type storeSize struct{ bytes, perDay int64 }

const (
	readGrowthEvery = 10 * time.Minute
	// growthOver is over how long growth is told, and growthAtLeast how old a store must be for that.
	growthOver    = 7 * 24 * time.Hour
	growthAtLeast = 24 * time.Hour
	// fullSoon is how near the day must be on which the disk is full, for an operator to be told.
	fullSoon = 30 * 24 * time.Hour
)

// read reads it from time to time.
func (g *growth) read(ctx context.Context, now time.Time) {
	if now.Before(g.next) {
		return
	}
	g.next = now.Add(readGrowthEvery)
	is := storeSize{bytes: g.store.size(ctx), perDay: -1}
	var err error
	if is.perDay, err = readGrowth(ctx, g.store, is.bytes); err != nil && ctx.Err() == nil {
		g.log.WarnContext(ctx, "how fast the store grows could not be read; trying again", "error", err)
	}
	g.is.Store(&is)
}

// readGrowth returns by how many bytes a store of so many grows in a day: what came of the audit log in the last days
// has its part of all, as each event goes with rows of its own. What is removed meanwhile is not taken off. Below 0 it
// is not known: the store is too young, or its events are not all there.
func readGrowth(ctx context.Context, s approval.Store, bytes int64) (int64, error) {
	perDay := int64(-1)
	err := s.View(ctx, func(tx approval.Tx) error {
		first, err := tx.Events(approval.EventQuery{Ascending: true, Limit: 1})
		if err != nil || len(first) == 0 {
			return err
		}
		over := min(growthOver, tx.Now().Sub(first[0].At))
		gone, err := tx.Events(approval.EventQuery{Type: approval.EventAuditPruned, Limit: 1})
		if err != nil || over < growthAtLeast || len(gone) > 0 {
			return err
		}
		oldest, newest, err := tx.SeqRange()
		if err != nil {
			return err
		}
		recent, err := tx.Events(approval.EventQuery{Since: tx.Now().Add(-over), Ascending: true, Limit: 1})
		if err != nil {
			return err
		}
		came := 0.0
		if len(recent) > 0 {
			came = float64(newest-recent[0].Seq+1) / float64(newest-oldest+1)
		}
		perDay = int64(came * float64(bytes) / over.Hours() * 24)
		return nil
	})
	return perDay, err
}

// fullIn is after how long the disk is full, if nothing is removed; 0: that is not known, or it does not grow.
func (g *growth) fullIn() time.Duration {
	is, space := g.is.Load(), g.disk.space.Load()
	if is == nil || space == nil || is.perDay <= 0 {
		return 0
	}
	const most = 100 * 365
	return time.Duration(min(float64(space.Free)/float64(is.perDay), most) * 24 * float64(time.Hour))
}

// problems names a disk that will soon be full of a store from which nothing is removed.
func (g *growth) problems() []string {
	in := g.fullIn()
	if in == 0 || in >= fullSoon || g.live.Load().cfg.Keep.Requests > 0 {
		return nil
	}
	is := g.is.Load()
	return []string{fmt.Sprintf("the store grows by %d MiB a day, and its disk is full in %d days unless something is "+
		"removed: make room on it, or have retention remove what is old (docs/retention.md)", is.perDay>>20,
		int(in.Hours()/24))}
}

var (
	storeBytes = prometheus.NewDesc("countersign_store_bytes",
		"Bytes that the store takes, its write log included. -1: not known.", nil, nil)
	retentionDue = prometheus.NewDesc("countersign_retention_due",
		"What retention removes within a day, as its last run has found: requests that lose their args, notifications, "+
			"requests. At most 50000 of each are counted.", []string{"what"}, nil)
	storeGrowth = prometheus.NewDesc("countersign_store_growth_bytes_per_day",
		"Bytes that came to the store per day, over the last seven days, without what was removed. -1: not known yet.",
		nil, nil)
)

// Describe implements [prometheus.Collector].
func (g *growth) Describe(ch chan<- *prometheus.Desc) {
	ch <- storeBytes
	ch <- storeGrowth
	ch <- retentionDue
}

// Collect implements [prometheus.Collector].
func (g *growth) Collect(ch chan<- prometheus.Metric) {
	is := storeSize{-1, -1}
	if now := g.is.Load(); now != nil {
		is = *now
	}
	ch <- prometheus.MustNewConstMetric(storeBytes, prometheus.GaugeValue, float64(is.bytes))
	ch <- prometheus.MustNewConstMetric(storeGrowth, prometheus.GaugeValue, float64(is.perDay))
	if due := g.due(); due != nil {
		for what, n := range map[string]int{"args": due.Args, "notifications": due.Notifications, "requests": due.Requests} {
			ch <- prometheus.MustNewConstMetric(retentionDue, prometheus.GaugeValue, float64(n), what)
		}
	}
}
