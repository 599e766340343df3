package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// consent is the flag --yes of a command that interrupts traffic, or changes what other
// programs own. Such a command asks on a terminal, and needs --yes elsewhere.
type consent struct{ yes bool }

func (f *consent) register(c *cobra.Command, usage string) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, usage)
}

// check returns an error if ask could not ask. A command calls it before it contacts a
// cluster.
func (f *consent) check(cmd *cobra.Command) error {
	if in, ok := cmd.InOrStdin().(io.Writer); f.yes || ok && isTerminal(in) {
		return nil
	}
	return wrongUsage(cmd, "the input is not a terminal, so the command cannot ask; add --yes to go on without a question")
}

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was changed")

// ask asks a question, and returns nil if the answer is yes, or --yes is given.
func (f *consent) ask(ctx context.Context, cmd *cobra.Command, question string) error {
	if f.yes {
		return nil
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	type reply struct {
		text string
		err  error
	}
	replies := make(chan reply, 1)
	go func() { // a read of a terminal does not end with a context
		text, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		replies <- reply{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(cmd.ErrOrStderr())
		return ctx.Err()
	case is := <-replies:
		if is.err != nil && !errors.Is(is.err, io.EOF) {
			return is.err
		}
		if answer := strings.ToLower(strings.TrimSpace(is.text)); answer != "y" && answer != "yes" {
			return errDeclined
		}
	}
	return nil
}
