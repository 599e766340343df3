package verify

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The JUnit XML format for continuous integration.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Tests   int          `xml:"tests,attr"`
		Failed  int          `xml:"failures,attr"`
		Skipped int          `xml:"skipped,attr"`
		Time    string       `xml:"time,attr"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name    string      `xml:"name,attr"`
		Tests   int         `xml:"tests,attr"`
		Failed  int         `xml:"failures,attr"`
		Skipped int         `xml:"skipped,attr"`
		Cases   []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a report as JUnit XML: a suite for each group, direction and IP family.
func (r *Report) JUnit(w io.Writer) error {
	all := junitSuites{Tests: len(r.Checks), Failed: r.Counts.Failed, Skipped: r.Counts.Skipped, Time: fmt.Sprintf("%.3f", r.Seconds)}
	at := map[string]int{}
	for _, c := range r.Checks {
		name := string(c.Group)
		if c.Group == OfMatrix {
			name = fmt.Sprintf("%s to %s, %s", c.From, c.To, c.Family)
		}
		i, known := at[name]
		if !known {
			i = len(all.Suites)
			at[name] = i
			all.Suites = append(all.Suites, junitSuite{Name: name})
		}
		s := &all.Suites[i]
		one := junitCase{Class: "strait.verify." + string(c.Group), Name: c.Name(), Time: fmt.Sprintf("%.6f", c.RTT)}
		switch c.Outcome {
		case Failed:
			s.Failed++
			one.Failure = &junitMessage{c.Detail, strings.Join([]string{c.Detail, "probably: " + c.Cause, "remedy: " + c.Remedy}, "\n")}
		case Skipped:
			s.Skipped++
			one.Skipped = &junitMessage{Message: c.Detail}
		}
		s.Tests++
		s.Cases = append(s.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
