package main

// dashboard is what one shows.
type dashboard struct {
	uid, title, description string
	variables               []variable
	rows                    []row
}

// variable is a choice at the top: values of a label. All is one of them, and matches
// where the label is missing too, as cluster is for those who have one.
type variable struct {
	name, label, metric string
	one                 bool // without all
}

// row is a heading, and panels from left to right, each as wide as it says.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. Width is in twenty-fourths of the page, height in Grafana's rows.
type panel struct {
	title, description string
	kind               kind
	unit               unit
	width, height      int
	queries            []query
	good               *float64 // the least value that is well, where there is one
	bad                *float64 // the least that is not
	states             bool     // 1 and 0 are yes and no
	stacked            bool
}

// query is what Prometheus is asked, and how the answer is called: a text with {{label}}.
type query struct{ expr, legend string }

type kind string

const (
	lines    kind = "timeseries"
	number   kind = "stat"
	table    kind = "table"
	timeline kind = "state-timeline"
	bars     kind = "bargauge"
)

// unit is Grafana's name of it.
type unit string

const (
	count      unit = "short"
	seconds    unit = "s"
	bytes1024  unit = "bytes"
	bits       unit = "bps"
	packets    unit = "pps"
	perSecond  unit = "ops"
	share      unit = "percentunit"
	unitless   unit = "none"
	processors unit = "none"
)
