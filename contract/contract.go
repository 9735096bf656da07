package contract

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onejob/onejob"
)

// Contract is what a file says, ready to be used. It does not change, and may be used by
// several goroutines at once.
type Contract struct {
	Version         int
	Kind            string
	SideEffects     bool // an attempt changes something outside
	UnknownKeys     bool // a reply may have top-level members that its schema does not name
	NeutraliseInput bool // special tokens in an input are broken up; false: the input is refused
	Parameters      Parameters
	Ends            []string // of an answer, in the vendors' own words, that make it a reply
	Rules           []Rule
	Cases           []Case
	Canary          Case
	Ceilings        Ceilings
	ValidFor        time.Duration // of a certificate
	KeepPayloads    bool          // certification stores the replies themselves
	SHA256          string        // identity: hex, of the canonical content
	File            string        // where it was read, for people

	system, user  *template
	input, output *schema
}

// Parameters are what a provider is asked with. Nil: the provider's own default.
type Parameters struct {
	Temperature    *float64 `json:"temperature"`
	MaxTokens      int      `json:"max_tokens"` // of the answer; never 0
	Seed           *int64   `json:"seed"`
	ResponseFormat string   `json:"response_format"` // text, json_object or json_schema
}

// The formats of an answer that a provider can be asked for.
const (
	FormatText       = "text"
	FormatJSONObject = "json_object"
	FormatJSONSchema = "json_schema" // the contract's output schema
)

// Rule is a rule of the business about every reply.
type Rule struct {
	Name string `json:"name"`
	CEL  string `json:"cel"`
	Says string `json:"says"` // what it means, in words; may be empty

	program *program
}

// Case is a real input and what is expected of the reply to it.
type Case struct {
	Name        string          `json:"name"`
	Instruction string          `json:"instruction"` // stands behind the system prompt, for the canary only
	Input       json.RawMessage `json:"input"`
	Facts       []Fact          `json:"facts"`
	Runs        int             `json:"runs"`
	MustPass    int             `json:"must_pass"` // of the runs

	located // where it stands
}

// Fact is something that is known of the reply to one input: it has exactly one of Equal,
// OneOf and CEL.
type Fact struct {
	Path  string            `json:"path"` // JSON Pointer into the reply; "": the reply
	Equal json.RawMessage   `json:"equal,omitempty"`
	OneOf []json.RawMessage `json:"one_of,omitempty"`
	CEL   string            `json:"cel,omitempty"` // over input, output, and value, which is what the path names

	program *program
}

// Ceilings bound each call. Zero or empty: no ceiling.
type Ceilings struct {
	Latency  time.Duration
	Cost     onejob.Amount
	Currency string // of Cost, by ISO 4217
}

// InputSchema returns the JSON Schema of inputs.
func (c *Contract) InputSchema() json.RawMessage { return c.input.text() }

// OutputSchema returns the JSON Schema of replies, to be handed to providers that take one.
func (c *Contract) OutputSchema() json.RawMessage { return c.output.text() }

// mostFileBytes bounds the contract and each file beside it.
const mostFileBytes = 4 << 20

// Load reads the contract at path, and the files beside it that it names. It returns an
// [onejob.ErrMisconfigured] around [Problems].
func Load(path string) (*Contract, error) {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer folder.Close()
	text, err := readFile(folder.FS(), filepath.Base(path))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return Parse(path, text, folder.FS())
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the file does not exist: name one that does")
	}
	return onejob.Errorf(onejob.CodeMisconfigured, "%w", Problems{{File: path, Text: oneLine(err.Error())}})
}

var errTooLong = errors.New("has more than 4 MiB: make it smaller")

// readFile reads a file of at most mostFileBytes.
func readFile(folder fs.FS, name string) ([]byte, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFileBytes+1))
	if err == nil && len(text) > mostFileBytes {
		return nil, errTooLong
	}
	return text, err
}

// oneLine is a text in one line of bounded length.
func oneLine(text string) string {
	const most = 300
	return onejob.Shorten(strings.Join(strings.Fields(text), " "), most)
}
