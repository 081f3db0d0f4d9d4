package store

import "countersign/approval"

func (t delegations) PutDelegation(d approval.Delegation) error {
	return delegationColumns.bind(t.write(putDelegation), &d).put()
}

func (t delegations) Delegation(id string) (approval.Delegation, error) {
	return one(t.read(selectDelegation).text(id), delegationColumns.scan)
}

func (t delegations) Delegations() ([]approval.Delegation, error) {
	now := t.Now()
	return all(t.read(selectDelegations).time(now), 0, delegationColumns.scan)
}
