package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
)

// OldestFirst returns objects in the order of precedence for allocations: a new object
// takes nothing from an older one. The list is not changed.
func OldestFirst[T Object](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int {
		created, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(created.Compare(other.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// Clip truncates a text to at most limit bytes, at least 3.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// Digest returns a hash of fields of Kubernetes objects, which can be encoded as JSON.
func Digest(fields any) [sha256.Size]byte {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(text)
}
