// Package sbom writes bills of materials in SPDX 2.3: which modules, with which licences, are
// in a file of a release.
package sbom

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"strait.dev/strait/internal/archive"
)

// Document is the part of SPDX 2.3 that is needed here.
type Document struct {
	Version       string         `json:"spdxVersion"`
	DataLicence   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      Creation       `json:"creationInfo"`
	Packages      []Package      `json:"packages"`
	Relationships []Relationship `json:"relationships"`
}

// Creation says when and by what a document was made.
type Creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// Package is the described file, or a part of it.
type Package struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	File     string      `json:"packageFileName,omitempty"`
	Download string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Licence  string      `json:"licenseConcluded"`
	Declared string      `json:"licenseDeclared"`
	Copy     string      `json:"copyrightText"`
	Purpose  string      `json:"primaryPackagePurpose"`
	Sums     []Sum       `json:"checksums,omitempty"`
	Refs     []Reference `json:"externalRefs"`
}

// Sum is a checksum.
type Sum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// Reference names a package in the terms of a package manager.
type Reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship relates two elements of a document.
type Relationship struct {
	Of   string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// DocumentID is the element that stands for a document itself.
const DocumentID = "SPDXRef-DOCUMENT"

const (
	described = "SPDXRef-strait"
	unknown   = "NOASSERTION"
)

// Subject is the file that a document describes.
type Subject struct {
	Title   string // of the document
	Purl    string // package URL, with a version
	Name    string
	Version string
	File    string // name of the file; empty if it has none of its own
	Purpose string // APPLICATION, ARCHIVE or INSTALL
	Content []byte
	Made    time.Time // zero: unknown
}

// Part is a package that the described file contains or needs.
type Part struct{ Name, Version, Purl, Licence string }

// Modules returns the modules that are linked into a program, and the standard library.
func Modules(info *debug.BuildInfo, licences map[string]string) []Part {
	all := []Part{goPart("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")}
	for _, module := range info.Deps {
		if module.Replace != nil { // its code is in the program
			module = module.Replace
		}
		all = append(all, goPart(module.Path, module.Version, licences[module.Path]))
	}
	return all
}

func goPart(path, version, licence string) Part {
	return Part{path, version, "pkg:golang/" + path + "@" + version, licence}
}

// Describe returns the bill of materials of a file. The same arguments make the same bytes.
func Describe(s Subject, parts []Part) []byte {
	made := s.Made
	if made.IsZero() {
		made = time.Unix(0, 0) // a time is required, and the current one would not be reproducible
	}
	sum := archive.Sum(s.Content)
	whole := entry(described, Part{s.Name, s.Version, s.Purl, "Apache-2.0"}, s.Purpose)
	whole.File, whole.Sums = s.File, []Sum{{"SHA256", sum}}
	doc := Document{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: DocumentID,
		Name: s.Title, Namespace: "https://strait.dev/sbom/" + sum,
		Creation:      Creation{made.UTC().Format(time.RFC3339), []string{"Tool: strait-sbom"}},
		Packages:      []Package{whole},
		Relationships: []Relationship{{DocumentID, "DESCRIBES", described}},
	}
	for i, part := range parts {
		id := fmt.Sprintf("SPDXRef-part-%d", i+1)
		doc.Packages = append(doc.Packages, entry(id, part, "LIBRARY"))
		doc.Relationships = append(doc.Relationships, Relationship{described, "DEPENDS_ON", id})
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // a value of this package cannot fail
	}
	return text
}

func entry(id string, part Part, purpose string) Package {
	declared := part.Licence
	if declared == "" {
		declared = unknown
	}
	return Package{
		ID: id, Name: part.Name, Version: part.Version, Download: unknown, Licence: unknown, Declared: declared, Copy: unknown, Purpose: purpose,
		Refs: []Reference{{"PACKAGE-MANAGER", "purl", part.Purl}},
	}
}
