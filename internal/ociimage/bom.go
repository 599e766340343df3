package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that are needed here.

type bom struct {
	Version       string         `json:"spdxVersion"`
	DataLicence   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []bomPackage   `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type bomPackage struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Download string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Licence  string      `json:"licenseConcluded"`
	Declared string      `json:"licenseDeclared"`
	Copy     string      `json:"copyrightText"`
	Purpose  string      `json:"primaryPackagePurpose"`
	Sums     []sum       `json:"checksums,omitempty"`
	Refs     []reference `json:"externalRefs"`
}

type sum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Of   string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	document = "SPDXRef-DOCUMENT"
	program  = "SPDXRef-strait"
	unknown  = "NOASSERTION"
)

// bomOf returns the bill of materials of a program: the modules linked into it, from its
// build information, and Go's standard library.
func bomOf(b *goProgram, version string) []byte {
	made := b.made
	if made.IsZero() {
		made = time.Unix(0, 0) // a time is required, and the current one would not be reproducible
	}
	main := entry(program, b.info.Main.Path, version)
	main.Purpose, main.Declared = "APPLICATION", "Apache-2.0"
	main.Sums = []sum{{"SHA256", digest(b.content)}}
	doc := bom{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: document,
		Name:          fmt.Sprintf("strait-%s-%s-%s", version, b.platform.OS, b.platform.Architecture),
		Namespace:     "https://strait.dev/sbom/" + digest(b.content),
		Creation:      creation{made.UTC().Format(time.RFC3339), []string{"Tool: strait-ociimage"}},
		Packages:      []bomPackage{main},
		Relationships: []relationship{{document, "DESCRIBES", program}},
	}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(doc.Packages))
		doc.Packages = append(doc.Packages, entry(id, path, version))
		doc.Relationships = append(doc.Relationships, relationship{program, "DEPENDS_ON", id})
	}
	add("stdlib", strings.TrimPrefix(b.info.GoVersion, "go"))
	for _, module := range b.info.Deps {
		used := linked(module)
		add(used.Path, used.Version)
	}
	return toJSON(doc)
}

// linked returns the module whose code is in the program: the replacement, if there is one.
func linked(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func entry(id, path, version string) bomPackage {
	return bomPackage{
		ID: id, Name: path, Version: version, Download: unknown, Licence: unknown, Declared: unknown, Copy: unknown, Purpose: "LIBRARY",
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}
