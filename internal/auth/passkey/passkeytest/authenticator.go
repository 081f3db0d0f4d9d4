package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
)

// Authenticator is a security key in its owner's hand, with the browser that asks it.
type Authenticator struct {
	// Packed has new passkeys attest themselves; else they attest nothing.
	Packed bool
	// Eligible and BackedUp are what is said of copies on other devices.
	Eligible, BackedUp bool
	// NoCount has signatures not be counted.
	NoCount bool
	// Forge, where it is not nil, changes what is said before it is signed.
	Forge func(s *Said)

	keys  []*key
	count uint32
}

// Said is what a browser and an authenticator say, as a test may change it.
type Said struct {
	Client     map[string]any // the client data: type, challenge, origin, crossOrigin
	RPID       string
	Flags      byte
	Count      uint32
	Credential []byte // its id
	Handle     []byte // of whom it is, where the browser is told
}

// Flags of authenticator data.
const (
	Present        byte = 1 << 0
	Verified       byte = 1 << 2
	BackupEligible byte = 1 << 3
	BackupState    byte = 1 << 4
	attested       byte = 1 << 6
)

type key struct {
	id, handle []byte
	rpID       string
	private    *ecdsa.PrivateKey
}

// Clone returns an authenticator with the same keys and its own count, as a copy has.
func (a *Authenticator) Clone() *Authenticator {
	c := *a
	c.keys = slices.Clone(a.keys)
	return &c
}

// Credentials are the ids of its passkeys, the newest last.
func (a *Authenticator) Credentials() [][]byte {
	var all [][]byte
	for _, k := range a.keys {
		all = append(all, k.id)
	}
	return all
}

type creation struct {
	RP                 struct{ ID string }
	User               struct{ ID string }
	Challenge          string
	ExcludeCredentials []descriptor
}

type request struct {
	RPID             string `json:"rpId"`
	Challenge        string
	AllowCredentials []descriptor
}

type descriptor struct{ ID string }

// in reports whether a passkey is one of those that are named.
func (k *key) in(named []descriptor) bool {
	return slices.Contains(named, descriptor{b64.EncodeToString(k.id)})
}

var b64 = base64.RawURLEncoding

func must[T any](v T, err error) T {
	if err != nil {
		panic("passkeytest: " + err.Error())
	}
	return v
}

// IsExcluded reports whether options rule out a passkey that the authenticator has, which a browser keeps to.
func (a *Authenticator) IsExcluded(options []byte) bool {
	var o creation
	must(0, json.Unmarshal(options, &o))
	return slices.ContainsFunc(a.keys, func(k *key) bool { return k.in(o.ExcludeCredentials) })
}

// Create makes a passkey on a page of this origin, and returns what the page's script posts.
func (a *Authenticator) Create(origin string, options []byte) []byte {
	var o creation
	must(0, json.Unmarshal(options, &o))
	k := &key{id: make([]byte, 32), handle: must(b64.DecodeString(o.User.ID)), rpID: o.RP.ID,
		private: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	_, _ = rand.Read(k.id)
	a.keys = append(a.keys, k)
	s := a.say("webauthn.create", origin, o.Challenge, k)
	s.Flags |= attested
	if a.Forge != nil {
		a.Forge(s)
	}
	client := must(json.Marshal(s.Client))
	data := s.authenticatorData()
	data = append(data, make([]byte, 16)...) // no model
	data = binary.BigEndian.AppendUint16(data, uint16(len(s.Credential)))
	data = append(append(data, s.Credential...), k.cose()...)
	statement := cborMap()
	format := "none"
	if a.Packed {
		format = "packed"
		statement = cborMap(cborText("alg"), cborInt(-7), cborText("sig"), cborBytes(k.sign(data, client)))
	}
	object := cborMap(cborText("fmt"), cborText(format), cborText("attStmt"), statement, cborText("authData"),
		cborBytes(data))
	return must(json.Marshal(map[string]any{
		"id": b64.EncodeToString(s.Credential), "rawId": b64.EncodeToString(s.Credential), "type": "public-key",
		"clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": b64.EncodeToString(client),
			"attestationObject": b64.EncodeToString(object), "transports": []string{"usb", "invented"}},
	}))
}

// Get signs in, or approves, on a page of this origin, and returns what the page's script posts; nil where the
// authenticator has no passkey that is asked for.
func (a *Authenticator) Get(origin string, options []byte) []byte {
	var o request
	must(0, json.Unmarshal(options, &o))
	i := slices.IndexFunc(a.keys, func(k *key) bool {
		return k.rpID == o.RPID && (o.AllowCredentials == nil || k.in(o.AllowCredentials))
	})
	if i < 0 {
		return nil
	}
	return a.GetWith(a.keys[i].id, origin, options)
}

// GetWith is Get with the passkey of this id, whether it is asked for or not.
func (a *Authenticator) GetWith(id []byte, origin string, options []byte) []byte {
	var o request
	must(0, json.Unmarshal(options, &o))
	k := a.keys[slices.IndexFunc(a.keys, func(k *key) bool { return string(k.id) == string(id) })]
	s := a.say("webauthn.get", origin, o.Challenge, k)
	s.Handle = k.handle
	if a.Forge != nil {
		a.Forge(s)
	}
	client := must(json.Marshal(s.Client))
	data := s.authenticatorData()
	return must(json.Marshal(map[string]any{
		"id": b64.EncodeToString(s.Credential), "rawId": b64.EncodeToString(s.Credential), "type": "public-key",
		"clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": b64.EncodeToString(client),
			"authenticatorData": b64.EncodeToString(data), "signature": b64.EncodeToString(k.sign(data, client)),
			"userHandle": b64.EncodeToString(s.Handle)},
	}))
}

// say is what an honest one says.
func (a *Authenticator) say(what, origin, challenge string, k *key) *Said {
	if !a.NoCount {
		a.count++
	}
	s := &Said{RPID: k.rpID, Flags: Present | Verified, Count: a.count, Credential: k.id,
		Client: map[string]any{"type": what, "challenge": challenge, "origin": origin, "crossOrigin": false}}
	if a.Eligible {
		s.Flags |= BackupEligible
	}
	if a.BackedUp {
		s.Flags |= BackupState
	}
	return s
}

func (s *Said) authenticatorData() []byte {
	rp := sha256.Sum256([]byte(s.RPID))
	return binary.BigEndian.AppendUint32(append(rp[:], s.Flags), s.Count)
}

// sign signs authenticator data and the hash of the client data.
func (k *key) sign(data, client []byte) []byte {
	hash := sha256.Sum256(client)
	all := sha256.Sum256(append(slices.Clone(data), hash[:]...))
	return must(ecdsa.SignASN1(rand.Reader, k.private, all[:]))
}

// cose is the public key as COSE has it.
func (k *key) cose() []byte {
	point := must(k.private.PublicKey.Bytes()) // 4, x, y
	return cborMap(cborInt(1), cborInt(2), cborInt(3), cborInt(-7), cborInt(-1), cborInt(1),
		cborInt(-2), cborBytes(point[1:33]), cborInt(-3), cborBytes(point[33:]))
}

func cborHead(major byte, n uint64) []byte {
	switch {
	case n < 24:
		return []byte{major<<5 | byte(n)}
	case n < 1<<8:
		return []byte{major<<5 | 24, byte(n)}
	}
	return binary.BigEndian.AppendUint16([]byte{major<<5 | 25}, uint16(n))
}

func cborInt(n int) []byte {
	if n < 0 {
		return cborHead(1, uint64(-1-n))
	}
	return cborHead(0, uint64(n))
}

func cborBytes(b []byte) []byte { return append(cborHead(2, uint64(len(b))), b...) }

func cborText(s string) []byte { return append(cborHead(3, uint64(len(s))), s...) }

// cborMap takes keys and values in turn.
func cborMap(parts ...[]byte) []byte {
	return append(cborHead(5, uint64(len(parts)/2)), slices.Concat(parts...)...)
}
