package verdict

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onejob/onejob/provider"
)

// Counts names the counts in an API's usage: by their path in the body, such as
// usage.output_tokens, what each one counts.
type Counts map[string]func(u *provider.Usage, n int64)

// Read returns the counts in a body, or nil if none of them is there as a whole number.
// One that is there and is no count leaves all of them unsaid: it is better to estimate
// than to book half of it. The model that served the call is the body's model.
func (c Counts) Read(m Message) *provider.Usage {
	var usage provider.Usage
	read, wrong := 0, 0
	c.walk(jsontext.Value(m.Body), "", func(path string, value jsontext.Value) {
		if n, ok := count(value); ok {
			c[path](&usage, n)
			read++
		} else if value.Kind() != 'n' {
			wrong++
		}
	})
	if read == 0 || wrong > 0 {
		return nil
	}
	usage.Model = m.Text("model")
	return &usage
}

// walk calls read for every member that is named.
func (c Counts) walk(object jsontext.Value, path string, read func(string, jsontext.Value)) {
	seen := map[string]jsontext.Value{}
	eachMember(object, func(name string, value jsontext.Value) {
		if at := path + name; c[at] != nil || c.below(at+".") {
			seen[at] = value.Clone() // the last one of a name counts
		}
	})
	for at, value := range seen {
		if c[at] != nil {
			read(at, value)
		} else {
			c.walk(value, at+".", read)
		}
	}
}

func (c Counts) below(prefix string) bool {
	for path := range c {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// count reads a whole number from 0 to 2^53, up to which every language counts
// exactly.
func count(value jsontext.Value) (int64, bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	number, err := strconv.ParseFloat(value.String(), 64)
	if err != nil || number < 0 || number > 1<<53 || number != math.Trunc(number) {
		return 0, false
	}
	return int64(number), true
}

// counts says that a value may tell of usage above zero: anything that is not empty,
// false, or zero all the way down.
func counts(value jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	for {
		inName := false
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 0 {
			inName = true
		}
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		switch token.Kind() {
		case 't':
			return true
		case '"':
			if !inName && token.String() != "" {
				return true
			}
		case '0':
			if strings.Trim(strings.ToLower(token.String()), "-0.e+") != "" {
				return true
			}
		}
	}
}
