package report

import (
	"math"

	"strait.dev/strait/bench/result"
)

// plot is a bar chart of one unit, with horizontal bars. All lengths are pixels.
type plot struct {
	Unit          string
	More          bool // more is better
	Width, Height float64
	Bars          []bar
}

// bar is one figure: the median as a bar from zero, minimum and maximum as a line over
// it, and every repetition as a dot.
type bar struct {
	Label, Text string
	Own         bool // of strait: drawn in the accent colour
	values      []float64
	summary     result.Summary

	Y, Middle  float64 // top edge and center
	LabelX     float64 // right edge
	X, Length  float64
	Low, High  float64
	Dots       []float64
	TextX      float64
	Top, Below float64 // of the marks at both ends of the line
}

const (
	labelWidth = 340
	barWidth   = 420
	textWidth  = 150
	rowHeight  = 22
	barHeight  = 12
	gap        = 8
)

func (p *plot) add(label string, s result.Summary, values []float64) {
	p.Bars = append(p.Bars, bar{Label: label, Text: result.Format(s.Median, s.Unit), summary: s, values: values})
}

// layOut computes all positions. Bars begin at zero and share one scale.
func (p *plot) layOut() {
	var most float64
	for _, b := range p.Bars {
		most = max(most, b.summary.Max)
	}
	x := func(v float64) float64 {
		if most == 0 {
			return labelWidth
		}
		return math.Round(10*(labelWidth+barWidth*max(v, 0)/most)) / 10
	}
	p.Width, p.Height = labelWidth+barWidth+textWidth, float64(len(p.Bars))*rowHeight
	for i := range p.Bars {
		b := &p.Bars[i]
		b.Y = float64(i)*rowHeight + (rowHeight-barHeight)/2
		b.Middle = b.Y + barHeight/2
		b.Top, b.Below = b.Middle-3, b.Middle+3
		b.LabelX = labelWidth - gap
		b.X, b.Length = labelWidth, math.Round(10*(x(b.summary.Median)-labelWidth))/10
		b.Low, b.High = x(b.summary.Min), x(b.summary.Max)
		b.TextX = b.High + gap
		for _, v := range b.values {
			b.Dots = append(b.Dots, x(v))
		}
	}
}
