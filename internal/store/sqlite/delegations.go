package sqlite

import "countersign/approval"

func (t *tx) PutDelegation(d approval.Delegation) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(delegationColumns.bind(t.c.Stmt(putDelegation), &d))
	return err
}

func (t *tx) Delegation(id string) (approval.Delegation, error) {
	if err := t.readable(); err != nil {
		return approval.Delegation{}, err
	}
	return one(t, t.c.Stmt(selectDelegation).BindText(id), delegationColumns.scan)
}

func (t *tx) Delegations() ([]approval.Delegation, error) {
	now := t.Now()
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectDelegations).BindTime(now), 0, delegationColumns.scan)
}
