package inbox

import (
	"cmp"
	"context"
	"slices"

	"countersign/client"
)

// mostMissed is how many requests that ended unheard are asked about at a time.
const mostMissed = 50

// Refresh reads the whole list. What events and decisions bring meanwhile counts for more than what was read; of what
// waits no more the gate is asked how it ended.
func (b *Inbox) Refresh(ctx context.Context) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.note(map[string]struct{}{})
	defer b.note(nil)
	all, err := b.pending(ctx)
	if err != nil {
		if ctx.Err() == nil && !lasting(err) {
			b.silent(err)
		}
		return err
	}
	ended := b.readMissed(ctx, all)
	b.mu.Lock()
	for _, a := range ended {
		if _, newer := b.newer[a.ID]; newer {
			continue
		}
		b.store(a)
	}
	for id := range b.newer {
		if a, waits := b.waiting[id]; waits {
			all[id] = a
		} else {
			delete(all, id)
		}
	}
	b.waiting, b.read = all, true
	b.mu.Unlock()
	b.answers()
	b.tell()
	return nil
}

// note has what is stored from now on noted; nil: no more.
func (b *Inbox) note(newer map[string]struct{}) {
	b.mu.Lock()
	b.newer = newer
	b.mu.Unlock()
}

// pending reads what waits, page by page.
func (b *Inbox) pending(ctx context.Context) (map[string]client.Approval, error) {
	all := map[string]client.Approval{}
	for q := (client.ApprovalQuery{Status: "pending", Limit: 200}); ; {
		page, err := b.gate.Approvals(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, a := range page.Items {
			all[a.ID] = a
		}
		if q.After = page.Next; page.Next == "" || len(page.Items) == 0 {
			return all, nil
		}
	}
}

// readMissed asks how those ended that waited, are not in the list any more, and of which no event has told: the
// nearest deadlines first, which are the ones that are looked at.
func (b *Inbox) readMissed(ctx context.Context, all map[string]client.Approval) (ended []client.Approval) {
	var gone []client.Approval
	b.mu.Lock()
	for id, a := range b.waiting {
		_, newer := b.newer[id]
		if _, waits := all[id]; !waits && !newer {
			gone = append(gone, a)
		}
	}
	b.mu.Unlock()
	slices.SortFunc(gone, byDeadline)
	for _, a := range gone[:min(len(gone), mostMissed)] {
		if is, err := b.gate.Approval(ctx, a.ID); err == nil {
			ended = append(ended, is)
		}
	}
	return ended
}

// byDeadline orders what waits: the nearest deadline first.
func byDeadline(a, b client.Approval) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt.Time), cmp.Compare(a.ID, b.ID))
}
