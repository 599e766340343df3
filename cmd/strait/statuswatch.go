package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"strait.dev/strait/operate/operator"
)

// statusWatch shows reports, one after the other.
type statusWatch struct {
	to       io.Writer
	output   string
	terminal io.Writer // nil: to is none, and gets a line for each change

	last  *operator.Report // nil before the first
	fault string           // why there is no report now
}

// see shows a report, or the error of an API server that does not answer now.
func (w *statusWatch) see(r *operator.Report, err error) error {
	now := time.Now()
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if w.output == "table" && w.terminal != nil {
		if r != nil {
			w.last = r
		}
		return w.draw(fault, now)
	}
	var lines []string
	if fault != w.fault {
		w.fault = fault
		if lines = []string{"the API server answers again"}; fault != "" {
			lines = []string{fault}
		}
	}
	if r != nil {
		changes := operator.Changes(w.last, r)
		first := w.last == nil
		w.last = r
		if w.output != "table" {
			if !first && len(changes) == 0 {
				return nil
			}
			return w.document(r)
		}
		lines = append(lines, changes...)
	}
	if w.output != "table" {
		return nil // there is no document about an error
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(w.to, "%s  %s\n", now.Format(time.TimeOnly), line); err != nil {
			return err
		}
	}
	return nil
}

// document writes a report as one of several documents.
func (w *statusWatch) document(r *operator.Report) error {
	if w.output == "yaml" {
		if _, err := fmt.Fprintln(w.to, "---"); err != nil {
			return err
		}
	}
	return printAs(w.to, w.output, r)
}

// draw writes the last report over the one before. What does not fit the terminal is left out.
func (w *statusWatch) draw(fault string, now time.Time) error {
	var table strings.Builder
	fmt.Fprintf(&table, "%s  every %v, until Ctrl-C\n\n", now.Format(time.DateTime), operator.WatchInterval)
	if fault != "" {
		fmt.Fprintf(&table, "%s\n\n", fault)
	}
	if w.last != nil {
		if err := operator.Table(&table, w.last, now, false); err != nil {
			return err
		}
	}
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	if f, ok := w.terminal.(*os.File); ok {
		if _, height, err := term.GetSize(int(f.Fd())); err == nil {
			lines = fitting(lines, height)
		}
	}
	const (
		begin     = "\x1b[?7l\x1b[H" // cut long lines; go home
		endOfLine = "\x1b[K\n"       // clear the rest
		end       = "\x1b[J\x1b[?7h"
	)
	// The table may hold text of a remote cluster: only the sequences around it reach the terminal as they are.
	if _, err := io.WriteString(w.terminal, begin); err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprint(withColors(w.to), line); err != nil {
			return err
		}
		if _, err := io.WriteString(w.terminal, endOfLine); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w.terminal, end)
	return err
}

// fitting returns the lines that fit a terminal of a height in lines, of which the last is that of the cursor.
func fitting(lines []string, height int) []string {
	if room := height - 1; room > 0 && len(lines) > room {
		return append(slices.Clone(lines[:room-1]), fmt.Sprintf("… and %d lines more", len(lines)-room+1))
	}
	return lines
}
