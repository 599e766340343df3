package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// all has the dashboards by file name.
var all = map[string]dashboard{"fleet.json": fleet, "peering.json": peering, "datapath.json": datapath}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "the folder to write to is missing; run: go run ./internal/dashboards charts/strait/dashboards")
		os.Exit(2)
	}
	for name, d := range all {
		text, err := d.text()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// text returns the dashboard as JSON for Grafana.
func (d dashboard) text() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // expressions contain < and >
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d.grafana())
	return text.Bytes(), err
}
