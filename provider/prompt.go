package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/onejob/onejob"
)

// Prompt is what a model is asked, in no vendor's words.
type Prompt struct {
	System string
	User   string
	Input  json.RawMessage // what the prompt was made from, for a provider that takes it as it is

	Temperature    *float64        // nil: the provider's own default
	MaxTokens      int             // of the answer; never 0
	Seed           *int64          // nil: none; an API that has no seed is asked without it
	ResponseFormat string          // text, json_object or json_schema; an API without json_object is asked without it
	Schema         json.RawMessage // of the reply, for json_schema
}

// The formats of an answer that a prompt may ask for.
const (
	FormatText       = "text"
	FormatJSONObject = "json_object"
	FormatJSONSchema = "json_schema"
)

// Reply is what a model wrote.
type Reply struct {
	Text []byte // without the envelope of the vendor's API; empty: the model wrote no text
	End  string // how the answer ended, in the vendor's own words; "": the provider does not say
}

// AdapterVersion returns the version of the provider's adapter and where it asks, "" if it is no
// [Prompter]. A certificate is of it: what was proved of one server is not of another.
func (p Provider) AdapterVersion() string {
	if prompter, ok := p.Adapter.(Prompter); ok {
		return VersionAt(prompter.Version(), p.URL)
	}
	return ""
}

// VersionAt returns the version of an adapter that asks at the URL. It holds no secret: user and
// password do not count, and of a query only a hash is shown.
func VersionAt(version, address string) string {
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return version
	}
	at := strings.ToLower(u.Scheme+"://"+u.Host) + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		at += "?" + digest(u.RawQuery)
	}
	if len(at) > mostAddressBytes {
		at = onejob.Shorten(at, mostAddressBytes) + digest(at)
	}
	return version + " " + at
}

// mostAddressBytes bounds what of an address stands in rows.
const mostAddressBytes = 200

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// Prompter is an [Adapter] that can be asked by a prompt.
type Prompter interface {
	// Prompted returns the input by which Call asks the prompt. The same prompt gives the
	// same bytes. It fails if the API cannot be asked this.
	Prompted(p Prompt) (json.RawMessage, error)

	// Reply returns what the model wrote, of the Result of a successful [Answer]. It fails
	// if the result is none of this API.
	Reply(result json.RawMessage) (Reply, error)

	// Version names how prompts are put and replies are read: it changes when either does,
	// and what was proved of the provider before has to be proved again.
	Version() string
}

// TokenCounter is a [Prompter] whose provider counts the tokens of a prompt.
type TokenCounter interface {
	// CountTokens returns how many tokens the prompt has for the adapter's model. It costs
	// nothing, and fails if the provider does not say.
	CountTokens(ctx context.Context, p Prompt) (int, error)
}
