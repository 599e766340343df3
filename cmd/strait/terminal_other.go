//go:build !windows

package main

import "os"

// interpretsSequences reports whether a terminal interprets control sequences.
func interpretsSequences(*os.File) bool { return true }
