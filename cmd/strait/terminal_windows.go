package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// interpretsSequences requests that a console interprets control sequences, and reports
// whether it does: consoles before Windows 10 cannot, later ones only on request.
func interpretsSequences(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	return windows.GetConsoleMode(console, &mode) == nil && windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
