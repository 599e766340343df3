package tun

import (
	"net/netip"
	"sync/atomic"
)

// linkList is the links of a gateway, in order of preference. Safe for concurrent use.
type linkList struct{ now atomic.Pointer[[]*Link] }

// all returns the links; the caller must not change the list.
func (l *linkList) all() []*Link {
	if links := l.now.Load(); links != nil {
		return *links
	}
	return nil
}

// set replaces the links; the caller must not change the list any more.
func (l *linkList) set(links []*Link) { l.now.Store(&links) }

// between returns the link between two link addresses, or nil.
func (l *linkList) between(own, far netip.Addr) *Link {
	for _, link := range l.all() {
		if link.own == own && link.far == far {
			return link
		}
	}
	return nil
}
