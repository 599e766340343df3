package nodehelper

import "time"

// drops remembers what was last said of frames that the helper dropped.
type drops struct {
	said map[string]uint64 // by reason
	next time.Time         // not before
}

// since is how many more there are than when it was last not nil, of the totals given; nil
// if that is not long ago.
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
