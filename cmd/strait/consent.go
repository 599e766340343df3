package main

import (
	"bufio"
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
// cluster. With asks false, ask does not ask, and the answer is yes.
func (f *consent) check(cmd *cobra.Command, asks bool) error {
	f.yes = f.yes || !asks
	if in, ok := cmd.InOrStdin().(io.Writer); f.yes || ok && isTerminal(in) {
		return nil
	}
	return wrongUsage(cmd, "the input is not a terminal, so the command cannot ask; add --yes to go on without a question")
}

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was changed")

// ask asks a question, and returns nil if the answer is yes, or --yes is given.
func (f *consent) ask(cmd *cobra.Command, question string) error {
	if f.yes {
		return nil
	}
	if err := f.check(cmd, true); err != nil {
		return err
	}
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	text, err := interruptibly(cmd, func() (string, error) { return bufio.NewReader(cmd.InOrStdin()).ReadString('\n') })
	if cmd.Context().Err() != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(text)); answer != "y" && answer != "yes" {
		return errDeclined
	}
	return nil
}

// interruptibly returns what is read from the input, or an error when the context of the command
// ends: a read of a terminal does not end with it.
func interruptibly(cmd *cobra.Command, read func() (string, error)) (text string, err error) {
	done := make(chan struct{})
	var got string
	var failed error
	go func() {
		defer close(done)
		got, failed = read()
	}()
	select {
	case <-cmd.Context().Done():
		return "", cmd.Context().Err()
	case <-done:
		return got, failed
	}
}
