package services

import (
	"crypto/sha256"
	"sync"
	"time"

	"strait.dev/strait/k8s/client"
)

const longestRepair = 10 * time.Minute

// reportedRepairs is the number of repairs in a row from which an object is reported as
// contested: another writer changes it again and again.
const reportedRepairs = 5

// contests limits how often objects are repaired: written again with the same content, because
// another writer changed or deleted them. The time between two repairs of an object doubles
// from repairDelay to longestRepair, so that two writers that disagree do not flood the API
// server. Other writes of the object are not delayed. It is safe for concurrent use.
type contests struct {
	mu    sync.Mutex
	by    map[string]contest // by namespace/name
	swept time.Time
}

type contest struct {
	content [sha256.Size]byte
	at      time.Time
	repairs int // in a row
}

func (c contest) wait() time.Duration { return min(repairDelay<<min(c.repairs, 16), longestRepair) }

// over reports whether the object has been left as it is for so long that the next repair is
// the first one.
func (c contest) over(now time.Time) bool { return now.Sub(c.at) > max(4*c.wait(), time.Minute) }

func (c *contests) allows(key string, content any, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.by[key]
	return !ok || was.content != client.Digest(content) || now.Sub(was.at) >= was.wait()
}

// written records a write. It reports whether the object is contested from now on.
func (c *contests) written(key string, content any, now time.Time) (contested bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]contest)
	}
	is := contest{content: client.Digest(content), at: now}
	if was, ok := c.by[key]; ok && was.content == is.content && !was.over(now) {
		is.repairs = was.repairs + 1
	}
	c.by[key] = is
	if now.Sub(c.swept) > longestRepair {
		c.swept = now
		for key, one := range c.by {
			if one.over(now) {
				delete(c.by, key)
			}
		}
	}
	return is.repairs == reportedRepairs
}

// forget is called when this controller itself deletes an object.
func (c *contests) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, key)
}

func (c *contests) count(now time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.by {
		if one.repairs >= reportedRepairs && !one.over(now) {
			n++
		}
	}
	return n
}
