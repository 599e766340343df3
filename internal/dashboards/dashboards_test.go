package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheChartHasTheDashboardsAsTheyAreHere(t *testing.T) {
	const folder = "../../charts/strait/dashboards"
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(all) {
		t.Errorf("%d files in %s, want %d", len(files), folder, len(all))
	}
	for name, d := range all {
		want, err := d.text()
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s is another one (%v); run: go run ./internal/dashboards charts/strait/dashboards", name, err)
		}
	}
}
