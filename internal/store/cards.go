package store

import (
	"countersign/approval"
)

func (t cards) PutCard(c approval.Card) error {
	return cardColumns.bind(t.write(putCard), &c).put()
}

func (t cards) Card(id string) (approval.Card, error) {
	return one(t.read(selectCard).text(id), cardColumns.scan)
}

func (t cards) NewestCard(like approval.Card) (approval.Card, error) {
	s := t.read(newestCard).text(like.Agent).text(like.Session).text(like.Turn).text(like.Scope).
		text(string(like.Grouping))
	return one(s, cardColumns.scan)
}

func (t cards) PendingCards(agent string, limit int) ([]string, error) {
	return all(t.read(selectPendingCards).text(agent), limit, scanText)
}

func (t cards) HeldFor(agent string, limit int) ([]approval.Notification, error) {
	return all(t.read(selectHeld).text(agent), limit, scanNarrow)
}

func (t cards) PutReminded(requestID, notificationID string) error {
	return t.write(putReminded).text(requestID).text(notificationID).time(t.Now()).put()
}
