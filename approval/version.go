package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
)

// Version names the state of the request that somebody has before them: it is another one once a vote was given, a
// stage opened, more time was given, more is asked for, or the request ended. A decision that says which version was
// seen is not carried out on another one ([Decision.Versions]). It is 22 letters, digits, - and _, and no times are in
// it: those are shown by the machine's clock and kept by the store's.
func (r Request) Version() string {
	h := sha256.New()
	write := func(parts ...string) {
		for _, p := range parts {
			writeSized(h, p)
		}
	}
	write(r.ID, r.ArgsHash, string(r.Status), string(r.Risk), r.EndCode, r.ReplacedBy)
	writeFlags(h, r.RequireReason, !r.ExtendedAt.IsZero(), !r.ConsumedAt.IsZero(), !r.LapsedAt.IsZero())
	binary.Write(h, binary.BigEndian, int64(r.Stage)) //nolint:errcheck // a hash takes everything
	if r.Need != nil {
		write(string(marshal(r.Need)))
	}
	for _, v := range r.Votes {
		write(v.Person, v.For, string(v.Via))
		writeFlags(h, v.Approve)
		binary.Write(h, binary.BigEndian, int64(v.Stage)) //nolint:errcheck // a hash takes everything
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// writeSized adds a text with its length, so that no two lists of texts are alike.
func writeSized(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

func writeFlags(h hash.Hash, flags ...bool) {
	for _, f := range flags {
		b := byte(0)
		if f {
			b = 1
		}
		h.Write([]byte{b})
	}
}

// isOutdated reports whether whoever decides has seen another version of r than the one that stands.
func (d *Decision) isOutdated(r *Request) bool {
	return d.Versions != nil && d.Versions[r.ID] != r.Version()
}
