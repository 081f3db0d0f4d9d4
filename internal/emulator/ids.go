package emulator

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
)

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// requestID has the shape of X-Line-Request-Id.
func requestID() string {
	h := randomHex(16)
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// eventID is a ULID, the shape of LINE's webhookEventId.
func eventID(at time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var b [26]byte
	ms := uint64(at.UnixMilli())
	for i := 9; i >= 0; i-- {
		b[i] = alphabet[ms&31]
		ms >>= 5
	}
	_, _ = rand.Read(b[10:])
	for i := 10; i < 26; i++ {
		b[i] = alphabet[b[i]&31]
	}
	return string(b[:])
}

// next returns a number that was not given out before. The caller holds the lock.
func (e *Emulator) next() int64 {
	e.serial++
	return e.serial
}

// SignLINE computes the x-line-signature of a webhook body.
func SignLINE(channelSecret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(channelSecret))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// SignSlack computes the X-Slack-Signature of a request body; timestamp is the X-Slack-Request-Timestamp.
func SignSlack(signingSecret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(signingSecret))
	mac.Write([]byte("v0:" + timestamp + ":"))
	mac.Write(body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}
