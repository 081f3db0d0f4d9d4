package sqlite

func (t *tx) PutPolicy(digest, text string) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(t.c.Stmt(putPolicy).BindText(digest).BindText(text))
	return err
}

func (t *tx) PolicyText(digest string) (string, error) {
	if err := t.readable(); err != nil {
		return "", err
	}
	return one(t, t.c.Stmt(selectPolicy).BindText(digest), scanText)
}

func (t *tx) PolicyDigests(prefix string, limit int) ([]string, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	after := prefix + "\U0010FFFF" // after all that begin so
	return all(t, t.c.Stmt(selectPolicyDigests).BindText(prefix).BindText(after), limit, scanText)
}
