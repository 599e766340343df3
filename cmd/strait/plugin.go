package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Names under which kubectl runs the program: as the plugin strait, and for the completion of
// the plugin's command lines.
const (
	pluginName     = "kubectl-strait"
	pluginComplete = "kubectl_complete-strait"
)

// invoked returns the command tree and the command line for the arguments of a process, the
// first of which is the name of the program.
func invoked(argv []string) (*cobra.Command, []string) {
	root := newRoot()
	if len(argv) == 0 {
		return root, nil
	}
	args := argv[1:]
	switch strings.TrimSuffix(filepath.Base(argv[0]), ".exe") {
	case pluginComplete: // kubectl passes the words after the plugin's name, the last of them unfinished
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
		fallthrough
	case pluginName:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl strait"}
		rename(root)
	}
	return root, args
}

// rename replaces the program's name in the examples of a tree by that of the plugin.
func rename(c *cobra.Command) {
	c.Example = strings.ReplaceAll(c.Example, "strait ", "kubectl strait ")
	for _, sub := range c.Commands() {
		rename(sub)
	}
}

func main() {
	// The log of client-go is for programs that stay running, which set it. Commands return
	// errors.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	root, args := invoked(os.Args)
	os.Exit(execute(root, args))
}
