package sqlite

import (
	"countersign/approval"
)

func (t *tx) PutCard(c approval.Card) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(cardColumns.bind(t.c.Stmt(putCard), &c))
	return err
}

func (t *tx) Card(id string) (approval.Card, error) {
	if err := t.readable(); err != nil {
		return approval.Card{}, err
	}
	return one(t, t.c.Stmt(selectCard).BindText(id), cardColumns.scan)
}

func (t *tx) NewestCard(like approval.Card) (approval.Card, error) {
	if err := t.readable(); err != nil {
		return approval.Card{}, err
	}
	s := t.c.Stmt(newestCard).BindText(like.Agent).BindText(like.Session).BindText(like.Turn).BindText(like.Scope).
		BindText(string(like.Grouping))
	return one(t, s, cardColumns.scan)
}

func (t *tx) PendingCards(agent string, limit int) ([]string, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectPendingCards).BindText(agent), limit, scanText)
}

func (t *tx) HeldFor(agent string, limit int) ([]approval.Notification, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectHeld).BindText(agent), limit, scanNarrow)
}

func (t *tx) PutReminded(requestID, notificationID string) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(t.c.Stmt(putReminded).BindText(requestID).BindText(notificationID).BindTime(t.at))
	return err
}
