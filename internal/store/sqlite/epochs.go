package sqlite

import (
	"countersign/approval"
	"errors"
)

func (t *tx) Epoch(agent string) (approval.Epoch, error) {
	if err := t.readable(); err != nil {
		return approval.Epoch{}, err
	}
	e, err := one(t, t.c.Stmt(selectEpoch).BindText(agent), epochColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Epoch{}, nil
	}
	return e, err
}

func (t *tx) Epochs() ([]approval.Epoch, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectEpochs), 0, epochColumns.scan)
}

func (t *tx) PutEpoch(e approval.Epoch) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(epochColumns.bind(t.c.Stmt(putEpoch), &e))
	return err
}

func (t *tx) LiveBefore(agent, id string, limit int) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	if agent == "" {
		return all(t, t.c.Stmt(selectLiveBefore).BindText(id), limit, scanHead)
	}
	return all(t, t.c.Stmt(selectLiveOfBefore).BindText(agent).BindText(id), limit, scanHead)
}
