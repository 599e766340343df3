package main

// row is one thing that must hold.
type row struct {
	id     string // as names of tests begin with it
	column string // a row of address translation that is asked of both kinds; see columns
	clause string // what must hold, in our words
	source string // where to read it
	waived string // why it is not held; empty = it is
}

// section is a table of rows.
type section struct {
	title, about string
	rows         []row
}

// sections are the whole checklist, in the order in which a packet meets it.
var sections = []section{
	geneveRows, ecnRows, vxlanRows, ipRows, udpNATRows, tcpNATRows, icmpNATRows, carrierNATRows, rewriteRows,
	pathRows, threatRows, faultRows, scenarioRows,
}

// columns are the two kinds of address translation, and the word by which the name
// of a test or of its file says which it is about.
var columns = map[string]string{"masquerade": "masquerad", "prefix maps": "prefix"}

// both asks one thing of both kinds.
func both(r row) []row {
	stateful, stateless := r, r
	stateful.column, stateless.column = "masquerade", "prefix maps"
	return []row{stateful, stateless}
}
