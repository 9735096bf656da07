package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signer signs messages by Standard Webhooks (standardwebhooks.com, v1).
type signer struct{ key []byte }

const (
	secretPrefix  = "whsec_"
	leastKeyBytes = 24
	mostKeyBytes  = 64
)

// CheckSecret returns an error if the secret cannot sign callbacks: it is whsec_ and 24
// to 64 bytes in base64.
func CheckSecret(secret string) error {
	_, err := newSigner(secret)
	return err
}

func newSigner(secret string) (*signer, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < leastKeyBytes || len(key) > mostKeyBytes {
		return nil, errors.New("a callback secret is " + secretPrefix + " and 24 to 64 bytes in base64")
	}
	return &signer{key}, nil
}

// message is what a callback says, under an ID that its repetitions share.
type message struct {
	id   string
	body []byte
}

// sign returns the headers of the message as of the time.
func (s signer) sign(m message, at time.Time) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(m.id + "." + timestamp + "."))
	mac.Write(m.body)
	return http.Header{
		"Webhook-Id":        {m.id},
		"Webhook-Timestamp": {timestamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		"Content-Type":      {"application/json"},
	}
}

// forged signs with another key.
func (s signer) forged() signer {
	other := sha256.Sum256(s.key)
	return signer{other[:]}
}
