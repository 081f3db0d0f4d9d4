package store

import (
	"countersign/approval"
	"errors"
)

func (t epochs) Epoch(agent string) (approval.Epoch, error) {
	e, err := one(t.read(selectEpoch).text(agent), epochColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Epoch{}, nil
	}
	return e, err
}

func (t epochs) Epochs() ([]approval.Epoch, error) {
	return all(t.read(selectEpochs), 0, epochColumns.scan)
}

func (t epochs) PutEpoch(e approval.Epoch) error {
	return epochColumns.bind(t.write(putEpoch), &e).put()
}

func (t requests) LiveBefore(agent, id string, limit int) ([]approval.Head, error) {
	if agent == "" {
		return all(t.read(selectLiveBefore).text(id), limit, scanHead)
	}
	return all(t.read(selectLiveOfBefore).text(agent).text(id), limit, scanHead)
}
