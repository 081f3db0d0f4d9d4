package store

import (
	"slices"
	"time"

	"countersign/approval"
)

func (t delegations) PutDelegation(d approval.Delegation) error {
	return delegationColumns.bind(t.write(putDelegation), &d).put()
}

func (t delegations) Delegation(id string) (approval.Delegation, error) {
	return one(t.read(selectDelegation).text(id), delegationColumns.scan)
}

// Delegations asks for those that have lasted into this day: a statement that is the same all day long can be sent
// before the transaction knows its time.
func (t delegations) Delegations() ([]approval.Delegation, error) {
	now := t.Now()
	ds, err := all(t.read(selectDelegations).time(now.Truncate(24*time.Hour)), 0, delegationColumns.scan)
	return slices.DeleteFunc(ds, func(d approval.Delegation) bool { return !d.Until.After(now) }), err
}
