package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"time"
)

// goProgram is a program with its build information.
type goProgram struct {
	content  []byte
	info     *buildinfo.BuildInfo
	platform platform
	revision string    // of the source; empty: unknown, or there were uncommitted changes
	made     time.Time // of that commit; zero: unknown
}

// readBinary rejects programs that cannot run in an empty image.
func readBinary(path string) (*goProgram, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := &goProgram{content: content}
	if b.info, err = buildinfo.Read(bytes.NewReader(content)); err != nil {
		return nil, fmt.Errorf("%s has no build information: %w; pass a program built by Go", path, err)
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
		return nil, fmt.Errorf("%s: %w; rebuild it", path, err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is not static, and the image has no loader; build it with CGO_ENABLED=0", path)
		}
	}
	if settings["vcs.modified"] == "false" {
		b.revision = settings["vcs.revision"]
		b.made, _ = time.Parse(time.RFC3339, settings["vcs.time"]) // zero if invalid
	}
	return b, nil
}
