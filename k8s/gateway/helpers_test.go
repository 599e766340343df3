package gateway

import (
	"bytes"
	"encoding/base64"
	"testing"
)

// privateKey is a private key of 32 equal bytes, as its file holds it.
func privateKey(n byte) []byte {
	return []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
