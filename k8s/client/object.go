package client

import (
	"cmp"
	"slices"
	"strings"
)

// OldestFirst is objects in the order in which they may claim something: a new one takes
// nothing from an old one. The list stays as it is.
func OldestFirst[T Object](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int {
		created, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(created.Compare(other.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// Clip shortens a text to so many bytes, which a field of an object takes, at least 3.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}
