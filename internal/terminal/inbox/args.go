package inbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ArgChanges lists what differs between two JSON objects, a line for each member, with nested ones by their path; nil:
// nothing.
func ArgChanges(was, is json.RawMessage) []string {
	before, after := flat(was), flat(is)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, there := after[name]
		switch {
		case !there:
			lines = append(lines, fmt.Sprintf("%s: %s → (left out)", name, before[name]))
		case now != before[name]:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", name, before[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			lines = append(lines, fmt.Sprintf("%s: (not there) → %s", name, after[name]))
		}
	}
	return lines
}

// flat returns the values of a JSON object by their paths, each as it is written.
func flat(object json.RawMessage) map[string]string {
	all := map[string]string{}
	var walk func(at string, v json.RawMessage)
	walk = func(at string, v json.RawMessage) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(v, &members); err != nil || len(members) == 0 {
			all[cmp.Or(at, "all")] = leaf(v)
			return
		}
		for name, member := range members {
			walk(strings.TrimPrefix(at+"."+name, "."), member)
		}
	}
	walk("", object)
	return all
}

// leaf is a value as JSON, a text always with the same escapes: another way of writing it is no change.
func leaf(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) != nil {
		return compact(v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return compact(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// compact returns JSON on one line, every value as it was sent.
func compact(v json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return string(v)
	}
	return b.String()
}
