package main

import (
	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Generate a shell completion script",
		Long: `Generate a script that completes commands, flags, contexts, Peerings, pods and output
formats in a shell. Names of objects come from the cluster that the command line selects.

  bash         source <(strait completion bash), in ~/.bashrc; needs bash-completion
  zsh          source <(strait completion zsh), in ~/.zshrc, after compinit
  fish         strait completion fish > ~/.config/fish/completions/strait.fish
  powershell   strait completion powershell | Out-String | Invoke-Expression

For kubectl strait, link this program twice into a directory of the PATH: as
kubectl-strait, the plugin, and as kubectl_complete-strait, which kubectl runs to
complete the plugin's command lines.`,
		Example: `  source <(strait completion bash)
  ln -s strait /usr/local/bin/kubectl-strait && ln -s strait /usr/local/bin/kubectl_complete-strait`,
		ValidArgs: shells,
		Args:      arguments("the shell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), unescaped(cmd.OutOrStdout())
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return wrongUsage(cmd, "%q: no such shell; choose %s", args[0], choice(shells))
		},
	}
}
