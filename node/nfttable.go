//go:build linux

package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
)

// tableRule is a rule of the nftables table.
type tableRule struct {
	chain       string
	refused     string // the reason for which it drops and counts packets; empty: it does not
	expressions []expr.Any
}

// fixedChains are the chains that the table always has, in the order in which their rules are
// numbered. The chain of each link follows, by name.
var fixedChains = []nftables.Chain{
	{Name: chainUnmark, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATSource - 2)},
	{Name: chainPostrouting, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATSource - 1)},
	{Name: chainKeep},
	{Name: chainInput, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityFilter - 1)},
	{Name: chainFrames},
	{Name: chainIngress, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityMangle - 1)},
	{Name: chainGranted},
}

// transaction is the size in bytes of the largest transaction. The kernel processes it as a
// whole and acknowledges every rule before the acknowledgements are read.
const transaction = 4 << 20

func openTables() (*nftables.Conn, error) {
	return nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetWriteBuffer(transaction); err != nil {
			return err
		}
		return c.SetReadBuffer(transaction)
	}))
}

// setTable replaces the table atomically. The counters of refused packets go on; those that are
// refused during the call may be missing.
func (k *Kernel) setTable(t Table) error {
	counted, err := refusedIn(k.tables)
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	k.tables.AddTable(table) // so that deleting it cannot fail
	k.tables.DelTable(table)
	if err := k.addTable(table, t, counted); err != nil {
		return err
	}
	return k.tables.Flush()
}

// addTable adds a table to the transaction. counted are the values with which the counters begin.
func (k *Kernel) addTable(table *nftables.Table, t Table, counted map[Refused]expr.Counter) error {
	k.tables.AddTable(table)
	chains := map[string]*nftables.Chain{}
	for _, c := range t.chains() {
		c.Table = table
		chains[c.Name] = k.tables.AddChain(&c)
	}
	sets := &setAdder{conn: k.tables, table: table}
	rules, fingerprint := slices.Concat(t.Sources.rules(), t.Ingress.rules(sets)), t.fingerprint()
	for i, r := range rules {
		expressions := r.expressions
		if r.refused != "" {
			counter := counted[refusedBy(r.chain, r.refused)]
			expressions = append(slices.Clone(expressions), &counter, &expr.Verdict{Kind: expr.VerdictDrop})
		}
		k.tables.AddRule(&nftables.Rule{
			Table: table, Chain: chains[r.chain], Exprs: expressions,
			UserData: userdata.AppendString(nil, userdata.TypeComment, mark(fingerprint, i, len(rules), r.refused)),
		})
	}
	return sets.err
}

// chains returns all chains, in the order in which their rules are numbered.
func (t Table) chains() []nftables.Chain {
	chains := slices.Clone(fixedChains)
	for _, l := range t.Ingress.Links {
		chains = append(chains, nftables.Chain{Name: l.Link}, nftables.Chain{Name: l.Link + suffixTo})
	}
	return chains
}

// setAdder adds anonymous sets to a transaction. The kernel lets no program change their elements.
type setAdder struct {
	conn  *nftables.Conn
	table *nftables.Table
	added uint32
	err   error // the first one
}

// add adds a set and returns the expression that looks up register 1 in it.
func (a *setAdder) add(s nftables.Set, elements []nftables.SetElement) *expr.Lookup {
	a.added++
	s.Table, s.ID, s.Name, s.Anonymous, s.Constant = a.table, a.added, "__set%d", true, true
	if err := a.conn.AddSet(&s, elements); a.err == nil {
		a.err = err
	}
	return &expr.Lookup{SourceRegister: 1, SetID: s.ID, SetName: s.Name}
}

func (k *Kernel) deleteTable() error {
	k.tables.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	return gone(k.tables.Flush())
}

// mark returns the comment of one of the rules: the complete, ordered set proves that the
// table is unchanged. refused is the reason for which it drops packets, or empty.
func mark(fingerprint string, i, of int, refused string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %d/%d %s", fingerprint, i+1, of, refused))
}

// damagedTable replaces the fingerprint of a table that was changed.
const damagedTable = "damaged"

func (k *Kernel) observeTable() (string, error) {
	rules, intact, err := readTable(k.tables)
	if err != nil || !intact {
		return damagedTable, err
	}
	if rules == nil {
		return "", nil
	}
	var marks []string
	for _, r := range rules {
		m, _ := userdata.GetString(r.UserData, userdata.TypeComment)
		marks = append(marks, m)
	}
	return readMarks(marks, damagedTable), nil
}

// readTable returns the rules of the table in the order of their numbers, nil if there is no
// table. intact is false if another program changed its chains.
func readTable(conn *nftables.Conn) (rules []*nftables.Rule, intact bool, err error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, false, fmt.Errorf("list nftables chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != tableName })
	if len(chains) == 0 {
		return nil, true, nil
	}
	place := func(c *nftables.Chain) int {
		if i := slices.IndexFunc(fixedChains, func(f nftables.Chain) bool { return f.Name == c.Name }); i >= 0 {
			return i
		}
		return len(fixedChains)
	}
	slices.SortFunc(chains, func(a, b *nftables.Chain) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Name, b.Name))
	})
	intact = len(chains) >= len(fixedChains)
	for i, c := range chains {
		hooked := i < len(fixedChains) && fixedChains[i].Hooknum != nil
		intact = intact && place(c) == min(i, len(fixedChains)) && (c.Hooknum != nil) == hooked
		of, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, false, fmt.Errorf("list nftables rules: %w", err)
		}
		rules = append(rules, of...)
	}
	return rules, intact, nil
}

// readMarks returns the fingerprint that all marks agree on, else otherwise.
func readMarks(marks []string, otherwise string) string {
	if len(marks) == 0 {
		return otherwise
	}
	fingerprint, _, _ := strings.Cut(marks[0], " ")
	for i, m := range marks {
		_, refused, _ := strings.Cut(strings.TrimPrefix(m, fingerprint+" "), " ")
		if m != mark(fingerprint, i, len(marks), refused) {
			return otherwise
		}
	}
	return fingerprint
}
