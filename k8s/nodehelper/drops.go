package nodehelper

import "time"

// drops stores the last logged totals of packets that the helper dropped.
type drops struct {
	said map[string]uint64 // by reason
	next time.Time         // not before
}

// since returns how much the totals increased since the last non-nil result; nil if that
// was less than a refresh interval ago.
func (d *drops) since(totals map[string]uint64, now time.Time) map[string]uint64 {
	if now.Before(d.next) {
		return nil
	}
	more := map[string]uint64{}
	for why, n := range totals {
		if n > d.said[why] {
			more[why] = n - d.said[why]
		}
	}
	d.said, d.next = totals, now.Add(refresh)
	return more
}
