package config

import (
	"fmt"
	"strings"
	"time"
)

// Webhooks is how owners are told of their jobs.
type Webhooks struct {
	CallbackSecrets Secrets       // each signs what goes to a job's callback_url; none: nothing goes there
	AllowPrivate    bool          // http, and addresses that are not public, are called too
	Timeout         time.Duration // of one try
}

// Secrets are keys of Standard Webhooks. Printing them shows how many.
type Secrets []string

// String shows how many there are.
func (s Secrets) String() string { return fmt.Sprintf("%d secrets", len(s)) }

// GoString shows how many there are.
func (s Secrets) GoString() string { return fmt.Sprintf("config.Secrets(%d)", len(s)) }

// DefaultWebhookTimeout is how long a receiver may take to answer.
const DefaultWebhookTimeout = 10 * time.Second

const longestWebhookTimeout = time.Minute

func (c *Config) readWebhooks(e element) error {
	return e.members(map[string]member{
		"callback_secret": set(&c.Webhooks.CallbackSecrets, signingSecrets),
		"allow_private":   set(&c.Webhooks.AllowPrivate, flag),
		"timeout":         set(&c.Webhooks.Timeout, duration(time.Millisecond, longestWebhookTimeout)),
	})
}

// signingSecrets are secrets of Standard Webhooks, more than one while they are replaced.
func signingSecrets(e element) (Secrets, error) {
	secrets, err := expanded(e)
	if err == nil {
		err = e.checkSigning(secrets)
	}
	if err == nil && strings.TrimSpace(secrets) == "" {
		err = e.errorf("holds no secret: export the variable with one")
	}
	return strings.Fields(secrets), err
}
