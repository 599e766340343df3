package main

// dashboard defines one dashboard.
type dashboard struct {
	uid, title, description string
	variables               []variable
	rows                    []row
}

// variable is a selection list of label values. All matches series without the label too,
// as without a cluster label.
type variable struct {
	name, label, metric string
	one                 bool // without all
}

// row is a heading and its panels from left to right.
type row struct {
	title  string
	panels []panel
}

// panel is one panel. Width is in 24ths of the page, height in grid rows of Grafana.
type panel struct {
	title, description string
	kind               kind
	unit               unit
	width, height      int
	queries            []query
	good               *float64 // the lowest healthy value; nil: none
	bad                *float64 // the lowest unhealthy value; nil: none
	states             bool     // 1 and 0 are yes and no
	stacked            bool
}

// query is a PromQL expression and its legend, a text with {{label}}.
type query struct{ expr, legend string }

type kind string

const (
	lines    kind = "timeseries"
	number   kind = "stat"
	table    kind = "table"
	timeline kind = "state-timeline"
	bars     kind = "bargauge"
)

// unit is the name of a unit in Grafana.
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
