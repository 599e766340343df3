package sbom

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Licences returns the SPDX names of the licences of this module's dependencies, by the path
// of the module, from the files in Go's module cache. A licence that is not recognised is
// left out.
func Licences() (map[string]string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{with .Replace}}{{.Path}} {{.Dir}}{{else}}{{.Path}} {{.Dir}}{{end}}", "all")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir == "" { // no package of the module is needed here
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "[LC][IO][CP][EY]*")) // LICENSE, LICENCE, COPYING, also with .md, .txt
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && all[path] == "" {
				all[path] = licence(string(text))
			}
		}
	}
	return all, nil
}

// licence returns the SPDX name of the licence with a text, or nothing.
func licence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ sentence, without, name string }{
		{"Apache License Version 2.0", "", "Apache-2.0"},
		{"Licensed under the Apache License, Version 2.0", "", "Apache-2.0"},
		{"Mozilla Public License Version 2.0", "", "MPL-2.0"},
		{"Neither the name of", "", "BSD-3-Clause"},
		{"Redistribution and use in source and binary forms", "Neither the name of", "BSD-2-Clause"},
		{"Permission is hereby granted, free of charge", "", "MIT"},
		{"Permission to use, copy, modify, and/or distribute this software", "", "ISC"},
	} {
		if strings.Contains(text, known.sentence) && (known.without == "" || !strings.Contains(text, known.without)) {
			return known.name
		}
	}
	return ""
}
