package main

// row is one requirement.
type row struct {
	id     string // prefix of the names of its tests
	column string // for a row of address translation that applies to both types; see columns
	clause string // the requirement, summarised
	source string // the reference
	waived string // why it is not tested; empty = it is
}

// section is a table of rows.
type section struct {
	title, about string
	rows         []row
}

// sections is the whole checklist, in the order in which a packet meets the rules.
var sections = []section{
	geneveRows, ecnRows, vxlanRows, ipRows, udpNATRows, tcpNATRows, icmpNATRows, carrierNATRows, rewriteRows,
	pathRows, threatRows, faultRows, scenarioRows,
}

// columns are the two types of address translation, and the word that identifies each in
// the name of a test or of its file.
var columns = map[string]string{"masquerade": "masquerad", "prefix maps": "prefix"}

// both returns a row for each type.
func both(r row) []row {
	stateful, stateless := r, r
	stateful.column, stateless.column = "masquerade", "prefix maps"
	return []row{stateful, stateless}
}
