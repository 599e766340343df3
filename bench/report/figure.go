package report

import (
	"io"
	"slices"

	"strait.dev/strait/bench/result"
)

// Figure is one plot of a run: bars of one unit.
type Figure struct {
	Title string // what is compared
	Note  string // unit and direction, for instance "Gbit/s, more is better"
	Bars  []Bar
}

// Bar is one median of a run.
type Bar struct {
	Label string
	Key   result.Key
	Own   bool // of strait: drawn in the accent colour
}

// head is the height of title and note, foot the space below the last bar, in pixels.
const (
	head = 60
	foot = 12
)

// SVG writes a figure as an SVG document of its own, with colours for light and dark
// backgrounds. Bars that the run did not measure are left out; drawn is false, and
// nothing is written, if none is left.
func SVG(w io.Writer, run *result.Run, f Figure) (drawn bool, err error) {
	all := result.Medians(run.Samples)
	var p plot
	for _, b := range f.Bars {
		if i := slices.IndexFunc(all, func(s result.Summary) bool { return s.Key == b.Key }); i >= 0 {
			p.add(b.Label, all[i], valuesOf(run.Samples, b.Key))
			p.Bars[len(p.Bars)-1].Own = b.Own
		}
	}
	if len(p.Bars) == 0 {
		return false, nil
	}
	p.layOut()
	return true, page.ExecuteTemplate(w, "figure", struct {
		*plot
		Title, Note string
		FullHeight  float64
	}{&p, f.Title, f.Note, head + p.Height + foot})
}
