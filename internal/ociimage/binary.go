package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"time"
)

// goProgram is a program with what it says of itself.
type goProgram struct {
	content  []byte
	info     *buildinfo.BuildInfo
	platform platform
	revision string    // of the source; empty: not known, or not all of it was committed
	made     time.Time // when that was committed; zero: not known
}

// readBinary takes no program that an empty image cannot run.
func readBinary(path string) (*goProgram, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := &goProgram{content: content}
	if b.info, err = buildinfo.Read(bytes.NewReader(content)); err != nil {
		return nil, fmt.Errorf("%s says not what it was built from: %w; give a program that Go built", path, err)
	}
	settings := make(map[string]string)
	for _, s := range b.info.Settings {
		settings[s.Key] = s.Value
	}
	b.platform = platform{OS: settings["GOOS"], Architecture: settings["GOARCH"]}
	if b.platform.OS != "linux" {
		return nil, fmt.Errorf("%s is for %s; build it with GOOS=linux", path, b.platform.OS)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; build it again", path, err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is not static, and the image has no loader; build it with CGO_ENABLED=0", path)
		}
	}
	if settings["vcs.modified"] == "false" {
		b.revision = settings["vcs.revision"]
		b.made, _ = time.Parse(time.RFC3339, settings["vcs.time"]) // zero if it says nonsense
	}
	return b, nil
}
