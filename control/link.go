package control

import (
	"strings"
	"time"
	"unicode"

	"strait.dev/strait/config"
)

// Port is the TCP port on the gateways' link addresses.
const Port = 6094

// patience is the time limit of an exchange, and of each part of it at the server.
const patience = 10 * time.Second

// maxHeader is the maximum length of a request or response header in bytes; net/http allows slightly more.
const maxHeader = 4 << 10

// Link is the link of a connection, and so the authenticated far end. The keys identify it: names may change.
type Link struct {
	Name              string
	Gateway           string     // the remote gateway
	OwnKey, RemoteKey config.Key // public
}

// linkKey identifies a Link.
type linkKey struct{ own, remote config.Key }

func (l Link) key() linkKey { return linkKey{l.OwnKey, l.RemoteKey} }

// maxReason is the maximum length in bytes of text from the far end that is kept for display.
const maxReason = 512

// foreign is an error that may contain text of the far end.
type foreign struct{ error }

// Error implements error. The text is plain.
func (f foreign) Error() string { return plain(f.error.Error()) }

func (f foreign) Unwrap() error { return f.error }

// plain makes text from the far end safe for a log line or a status: short, without control characters or invalid
// UTF-8.
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
