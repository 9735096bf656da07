package certify

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/onejob/onejob"
)

// mostDisagreements bounds a report.
const mostDisagreements = 200

// disagreements compares the first answer to each case with the primary's first. Where one of the
// replies was not kept, no more is known than that they differ.
func disagreements(p Preparation, calls, compared []Call) []Disagreement {
	all := []Disagreement{}
	for _, q := range p.Questions {
		mine, ok := firstAnswer(calls, q.Case)
		theirs, there := firstAnswer(compared, q.Case)
		if q.Case == "" || !ok || !there || len(all) >= mostDisagreements {
			continue
		}
		all = append(all, differences(q.Case, mine, theirs)...)
	}
	return all[:min(len(all), mostDisagreements)]
}

func firstAnswer(calls []Call, name string) (Call, bool) {
	i := slices.IndexFunc(calls, func(c Call) bool { return c.Case == name && c.State == "answered" })
	if i < 0 {
		return Call{}, false
	}
	return calls[i], true
}

func differences(name string, mine, theirs Call) (all []Disagreement) {
	var a, b Verdict
	if json.Unmarshal(mine.Verdict, &a) == nil && json.Unmarshal(theirs.Verdict, &b) == nil && a.Value != "" && a.Value == b.Value {
		return nil
	}
	var here, there any
	if mine.Reply == nil || theirs.Reply == nil || json.Unmarshal(mine.Reply, &here) != nil || json.Unmarshal(theirs.Reply, &there) != nil {
		return []Disagreement{{Case: name, Primary: shownReply(theirs), This: shownReply(mine)}}
	}
	compare("", there, here, func(path string, primary, this any) {
		all = append(all, Disagreement{Case: name, Path: path, Primary: shown(primary), This: shown(this)})
	})
	return all
}

// shownReply is what is known of a whole reply.
func shownReply(c Call) string {
	if c.Reply == nil {
		return "sha256 " + onejob.Shorten(reportCall(c, false).SHA256, 12)
	}
	return onejob.Shorten(string(c.Reply), 200)
}

// absent stands for a member that one of the replies lacks.
type absent struct{}

func shown(value any) string {
	if value == (any)(absent{}) {
		return "(not there)"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return onejob.Shorten(string(text), 200)
}

// compare calls differs for each place where the values differ.
func compare(path string, primary, this any, differs func(path string, primary, this any)) {
	switch a := primary.(type) {
	case map[string]any:
		if b, ok := this.(map[string]any); ok {
			names := slices.Sorted(maps.Keys(a))
			for name := range b {
				if _, there := a[name]; !there {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			for _, name := range names {
				compare(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), member(a, name), member(b, name), differs)
			}
			return
		}
	case []any:
		if b, ok := this.([]any); ok && len(a) == len(b) {
			for i := range a {
				compare(path+"/"+shown(i), a[i], b[i], differs)
			}
			return
		}
	}
	if shownWhole(primary) != shownWhole(this) {
		differs(path, primary, this)
	}
}

func member(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return absent{}
}

func shownWhole(value any) string {
	if value == (any)(absent{}) {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
