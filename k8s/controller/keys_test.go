package controller

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

func TestPrivateKeysAreThoseOfCurve25519(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		text := privateKey()
		line, ended := strings.CutSuffix(string(text), "\n")
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || !ended || len(key) != 32 {
			t.Fatalf("a key of %d bytes, ended by a line break: %v: %v", len(key), ended, err)
		}
		if key[0]&7 != 0 || key[31]&128 != 0 || key[31]&64 == 0 {
			t.Error("a key is not clamped")
		}
		if seen[line] {
			t.Error("a key came twice")
		}
		seen[line] = true
	}
}

func TestT4_NoErrorHoldsAKey(t *testing.T) {
	key := privateKey()
	sent, plain := base64.StdEncoding.EncodeToString(key), strings.TrimSpace(string(key))
	for _, quoted := range []string{sent, plain} {
		if err := withoutKey(errors.New("webhook denied "+quoted), key); err == nil || strings.Contains(err.Error(), quoted) {
			t.Error("an error that quotes the key passes it on")
		}
	}
	harmless := errors.New("exceeded quota")
	if err := withoutKey(harmless, key); !errors.Is(err, harmless) || withoutKey(nil, key) != nil {
		t.Errorf("another error became %v", err)
	}
}
