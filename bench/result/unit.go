package result

import (
	"fmt"
	"math"
	"strings"
)

// MoreIsBetter reports whether more is better for a unit: for rates per second only.
func MoreIsBetter(unit string) bool { return strings.HasSuffix(unit, "/s") }

// Format formats a value with three significant digits: "1.68 Gbit/s", "23.4 µs/op", "1.20
// MiB", "0.5 %". A prefix of the unit that names the quantity ("p99-ns", "ndr-pkts/s") is
// left out.
func Format(v float64, unit string) string {
	base := unit[strings.LastIndex(unit, "-")+1:]
	switch {
	case unit == "loss":
		return fmt.Sprintf("%.3g %%", 100*v)
	case base == "ns" || strings.HasPrefix(base, "ns/"):
		return scaled(v, 1000, []string{" ns", " µs", " ms", " s"}) + base[len("ns"):]
	case MoreIsBetter(base):
		return scaled(v, 1000, []string{" ", " k", " M", " G"}) + base
	case base == "B" || strings.HasPrefix(base, "B/"):
		return scaled(v, 1024, []string{" ", " Ki", " Mi", " Gi"}) + base
	}
	return digits(v) + " " + unit
}

// scaled divides v by base until it is short, and appends the name of that unit.
func scaled(v, base float64, names []string) string {
	i := 0
	for i < len(names)-1 && math.Abs(v) >= base {
		v /= base
		i++
	}
	return digits(v) + names[i]
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
