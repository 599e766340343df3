package main

import (
	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print what makes a shell complete command lines",
		Long: `Print a script that makes a shell complete verbs, flags, contexts, Peerings, pods and
forms of output. Names in a cluster are asked of the cluster that the line is about.

  bash         source <(strait completion bash), in ~/.bashrc; needs bash-completion
  zsh          source <(strait completion zsh), in ~/.zshrc, after compinit
  fish         strait completion fish > ~/.config/fish/completions/strait.fish
  powershell   strait completion powershell | Out-String | Invoke-Expression

For kubectl strait, link this program twice into a folder of the PATH: as
kubectl-strait, which makes it a plugin, and as kubectl_complete-strait, which
kubectl asks to complete its command lines. kubectl's own completion does the rest.`,
		Example: `  source <(strait completion bash)
  ln -s strait /usr/local/bin/kubectl-strait && ln -s strait /usr/local/bin/kubectl_complete-strait`,
		ValidArgs: shells,
		Args:      arguments("the shell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
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
			return wrongUsage(cmd, "%q: no such shell; choose bash, zsh, fish or powershell", args[0])
		},
	}
}
