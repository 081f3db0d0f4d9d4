package main

import (
	"errors"
	"slices"
	"testing"

	"countersign/client"
)

// A gate that looks at a part of its record for one answer may find nothing there; the next page goes on.
func TestAnEmptyPageIsNotTheEnd(t *testing.T) {
	record := map[string]client.Page[int]{"": {Next: "a"}, "a": {Items: []int{1}, Next: "b"}, "b": {Next: "c"},
		"c": {Items: []int{2, 3}, Next: "d"}, "d": {}, "again": {Items: []int{9}, Next: "again"}}
	for _, c := range []struct {
		from  string
		limit int
		want  []int
		next  string
	}{{"", 0, []int{1, 2, 3}, ""}, {"", 3, []int{1, 2, 3}, "d"}, {"", 1, []int{1}, "b"}, {"again", 0, []int{9, 9},
		"again"}} {
		asked := 0
		got, err := pages(c.limit, func(after string, _ int) (client.Page[int], error) {
			if asked++; asked > len(record) {
				return client.Page[int]{}, errors.New("it asks on and on")
			}
			if after == "" {
				after = c.from
			}
			return record[after], nil
		})
		if err != nil || !slices.Equal(got.Items, c.want) || got.Next != c.next {
			t.Errorf("from %q, %d: %v, then %q, %v; want %v, then %q", c.from, c.limit, got.Items, got.Next, err, c.want, c.next)
		}
	}
}
