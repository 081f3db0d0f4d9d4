package store

import (
	"errors"
	"time"

	"countersign/approval"
)

func (t retention) OldRequests(after string, before time.Time, limit int) ([]approval.Old, error) {
	return all(t.read(selectOldRequests).text(after).text(firstID(before)), limit, scanOld)
}

func (t retention) OldNotifications(after string, before time.Time, limit int) ([]approval.Old, error) {
	return all(t.read(selectOldNotifications).text(after).text(firstID(before)), limit, scanOld)
}

func scanOld(s Scanner, o *approval.Old) {
	o.ID = s.ColumnText()
	o.Over, o.Emptied = s.ColumnInt() > 0, s.ColumnInt() > 0
}

func (t retention) RemoveArgs(id string) (bool, error) {
	removed, err := t.write(removeArgs).time(t.Now()).text(id).change()
	if err == nil && removed {
		err = t.execAll(id, removeGrantArgs, removeTextsOf)
	}
	return removed && err == nil, err
}

func (t retention) EraseTexts(id string) (bool, error) {
	erased, err := t.write(eraseTexts).time(t.Now()).text(id).change()
	if err == nil && erased {
		err = t.execAll(id, removeGrantArgs, eraseTextsOf)
	}
	return erased && err == nil, err
}

// execAll runs statements that are about one request, however many rows each changes.
func (t retention) execAll(id string, qs ...Query) error {
	for _, q := range qs {
		if _, err := t.write(q).text(id).exec(); err != nil {
			return err
		}
	}
	return nil
}

func (t retention) RemoveText(id string) (bool, error) { return t.write(removeText).text(id).change() }

func (t retention) RemoveNotification(id string) (bool, error) {
	return t.write(removeNotification).text(id).change()
}

func (t retention) RemoveEvents(upTo int64) (int, error) {
	return t.write(removeEvents).number(upTo).exec()
}

// errInUse undoes the removal of a request that has come to be needed meanwhile.
var errInUse = errors.New("store: a request that was to be removed has come to be needed meanwhile")

func (t retention) RemoveRequest(id string) (bool, error) {
	if err := t.MayWrite(); err != nil {
		return false, err
	}
	old, err := one(t.read(selectOldRequest).text(id), scanOld)
	if errors.Is(err, approval.ErrNotFound) || err == nil && !old.Over {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h, err := requests(t).Head(id)
	if err != nil {
		return false, err
	}
	if err := t.execAll(id, removeUses, removeGrants, removeReminded, removeNotificationsOf, removeVotes,
		removeRequestSessions); err != nil {
		return false, err
	}
	if removed, err := t.write(removeRequest).text(id).change(); err != nil || !removed {
		return false, errors.Join(errInUse, err)
	}
	if h.BatchID != "" {
		_, err = t.write(removeCard).text(h.BatchID).exec()
	}
	return err == nil, err
}
