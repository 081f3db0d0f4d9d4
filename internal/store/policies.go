package store

func (t policies) PutPolicy(digest, text string) error {
	return t.write(putPolicy).text(digest).text(text).put()
}

func (t policies) PolicyText(digest string) (string, error) {
	return one(t.read(selectPolicy).text(digest), scanText)
}

func (t policies) PolicyDigests(prefix string, limit int) ([]string, error) {
	after := prefix + "\U0010FFFF" // after all that begin so
	return all(t.read(selectPolicyDigests).text(prefix).text(after), limit, scanText)
}
