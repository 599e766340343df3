//go:build linux

package node

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// Refused identifies a counter of packets that the node refused: the link on which they arrived
// and the reason, which is one of the Refused constants. For RefusedFrame and RefusedLink there
// is no link: Link is the name of a chain.
type Refused struct{ Link, Reason string }

// Refused returns the number of refused packets since the table was first created. It may miss
// packets that were refused while the table was replaced. Safe for concurrent use.
func (k *Kernel) Refused() (map[Refused]uint64, error) {
	k.counters.Lock()
	defer k.counters.Unlock()
	counted, err := refusedIn(k.counters.tables)
	if err != nil {
		return nil, fmt.Errorf("node: read the counters of refused packets: %w%s", err, remedy(err))
	}
	packets := map[Refused]uint64{}
	for of, counter := range counted {
		packets[of] = counter.Packets
	}
	return packets, nil
}

// refusedBy identifies the counter of a rule.
func refusedBy(chain, reason string) Refused {
	return Refused{strings.TrimSuffix(chain, suffixTo), reason}
}

// refusedIn reads the counters of the table. Each reason has one rule for a link.
func refusedIn(conn *nftables.Conn) (map[Refused]expr.Counter, error) {
	rules, _, err := readTable(conn)
	if err != nil {
		return nil, err
	}
	counted := map[Refused]expr.Counter{}
	for _, r := range rules {
		comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
		fields := strings.Fields(comment)
		if len(fields) != 3 { // fingerprint, number, reason
			continue
		}
		of := refusedBy(r.Chain.Name, fields[2])
		for _, e := range r.Exprs {
			if c, is := e.(*expr.Counter); is {
				counted[of] = *c
			}
		}
	}
	return counted, nil
}
