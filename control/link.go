package control

import (
	"strings"
	"time"
	"unicode"

	"strait.dev/strait/config"
)

// Port is the TCP port on the gateways' link addresses.
const Port = 6094

// patience is how long an exchange may take, and each part of it at the server.
const patience = 10 * time.Second

// maxHeader is the longest header of a request or an answer, bytes; net/http allows
// some more.
const maxHeader = 4 << 10

// Link is the link that a connection goes over, and so who is at its other end. The
// keys tell links apart: names may change.
type Link struct {
	Name              string
	Gateway           string     // the remote gateway
	OwnKey, RemoteKey config.Key // public
}

// linkKey is what a Link is known by.
type linkKey struct{ own, remote config.Key }

func (l Link) key() linkKey { return linkKey{l.OwnKey, l.RemoteKey} }

// maxReason is the longest text that is taken from the far end for people, bytes.
const maxReason = 512

// plain makes a text of the far end fit for a log line or a status: short, without
// control characters or broken UTF-8.
func plain(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsGraphic(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
