package storetest

import (
	"errors"
	"testing"

	"countersign/approval"
)

func policies(t *testing.T, s approval.Store) {
	texts := map[string]string{hash("a"): "policy:\n  mode: enforce\n", hash("b"): "規則: ⟨x⟩"}
	update(t, s, func(tx approval.Tx) error {
		for digest, text := range texts {
			if err := tx.PutPolicy(digest, text); err != nil {
				return err
			}
		}
		return tx.PutPolicy(hash("a"), "another") // what is there stays
	})
	view(t, s, func(tx approval.Tx) error {
		for digest, want := range texts {
			got, err := tx.PolicyText(digest)
			equal(t, "PolicyText", got, want)
			if err != nil {
				return err
			}
		}
		if _, err := tx.PolicyText(hash("c")); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("PolicyText of none: %v", err)
		}
		for prefix, want := range map[string][]string{
			"":              {hash("a"), hash("b")},
			"0":             {hash("a"), hash("b")},
			hash("b"):       {hash("b")},
			"f":             nil,
			hash("b") + "0": nil,
		} {
			got, err := tx.PolicyDigests(prefix, 0)
			equal(t, "PolicyDigests of "+prefix, got, want)
			if err != nil {
				return err
			}
		}
		got, err := tx.PolicyDigests("0", 1)
		equal(t, "PolicyDigests, one", got, []string{hash("a")})
		return err
	})
}
