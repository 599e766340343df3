package gateway

import (
	"bytes"
	"encoding/base64"
	"sync"
	"testing"
)

// lockedBuffer is a log that the test reads while the gateway writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

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
