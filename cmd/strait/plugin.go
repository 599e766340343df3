package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Under these names kubectl finds the program: as the plugin strait, and as what completes
// that plugin's command lines.
const (
	pluginName     = "kubectl-strait"
	pluginComplete = "kubectl_complete-strait"
)

// invoked is the command tree and the command line of a program that was started as these
// arguments say, the first of which is its name.
func invoked(argv []string) (*cobra.Command, []string) {
	root := newRoot()
	if len(argv) == 0 {
		return root, nil
	}
	args := argv[1:]
	switch strings.TrimSuffix(filepath.Base(argv[0]), ".exe") {
	case pluginComplete: // kubectl gives the words after the plugin's name, the last unfinished
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
		fallthrough
	case pluginName:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl strait"}
		rename(root)
	}
	return root, args
}

// rename makes the examples of a tree those of the plugin.
func rename(c *cobra.Command) {
	c.Example = strings.ReplaceAll(c.Example, "strait ", "kubectl strait ")
	for _, sub := range c.Commands() {
		rename(sub)
	}
}

func main() {
	// client-go's own log is for programs that run; they take it. Commands return errors.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	root, args := invoked(os.Args)
	os.Exit(execute(root, args))
}
