package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// newHelp replaces the command of that name of cobra, which prints the help of the root for
// an unknown command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Print the help of a command",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if of, err := descend(cmd.Root(), given); err == nil {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			of, err := descend(cmd.Root(), words)
			if err != nil {
				return err
			}
			of.InitDefaultHelpFlag()
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
}

// descend returns the subcommand that words name.
func descend(c *cobra.Command, words []string) (*cobra.Command, error) {
	for _, word := range words {
		subs := c.Commands()
		i := slices.IndexFunc(subs, func(sub *cobra.Command) bool { return sub.Name() == word })
		if i < 0 {
			return nil, wrongUsage(c, "%w", unknownCommand(c, word))
		}
		c = subs[i]
	}
	return c, nil
}
