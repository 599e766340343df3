package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strait.dev/strait/internal/smallfile"
)

// usageError is a mistake on the command line.
type usageError struct {
	err  error
	help string // the command line that prints the usage
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func wrongUsage(cmd *cobra.Command, format string, values ...any) error {
	return &usageError{fmt.Errorf(format, values...), cmd.CommandPath() + " --help"}
}

// arguments accepts exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) < len(names) {
			return fmt.Errorf("%s is missing", names[len(given)])
		}
		return tooMany(cmd, given, len(names))
	}
}

// atLeastOne accepts one argument or more.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		if len(given) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}

func noArguments(cmd *cobra.Command, given []string) error { return tooMany(cmd, given, 0) }

// group adds subcommands to a command that does nothing without one.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	c.Args = noArguments
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var paths []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				paths = append(paths, sub.CommandPath())
			}
		}
		return wrongUsage(cmd, "the subcommand is missing: choose %s", choice(paths))
	}
	return c
}

// tooMany returns an error if more than most arguments are given. An argument in the place
// of a subcommand is reported as an unknown command.
func tooMany(cmd *cobra.Command, given []string, most int) error {
	switch {
	case len(given) <= most:
		return nil
	case most == 0 && cmd.HasAvailableSubCommands():
		return unknownCommand(cmd, given[0])
	case most == 0:
		return fmt.Errorf("%q is one argument too many: %s takes none", given[0], cmd.CommandPath())
	}
	return fmt.Errorf("%q is one argument too many", given[most])
}

// unknownCommand returns the error for a word that is not a subcommand, with the closest
// subcommands and how to list them.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	hint := ""
	if close := closest(word, names); len(close) > 0 {
		hint = ": did you mean " + either(close) + "?"
	}
	return fmt.Errorf("unknown command %q%s", word, hint)
}

// flagError rewrites an error of flag parsing: it names the flag, the value found and
// what to write instead.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		err = unknownFlag(cmd, unknown)
	case errors.As(err, &empty):
		err = fmt.Errorf("%s has no value; %s", written(empty.GetFlag(), empty.GetSpecifiedShortnames()), expected(empty.GetFlag()))
	case errors.As(err, &invalid):
		err = fmt.Errorf("--%s %s: %s", invalid.GetFlag().Name, invalid.GetValue(), expected(invalid.GetFlag()))
	}
	return wrongUsage(cmd, "%w", err)
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	if unknown.GetSpecifiedShortnames() != "" {
		text := "-" + unknown.GetSpecifiedShortnames()
		if f := optionalDuration(cmd); f != nil && isDuration(text) {
			return fmt.Errorf("--%s %s: give a positive duration, as in --%[1]s=%[3]s", f.Name, text, f.NoOptDefVal)
		}
		return fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedName())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	hint := ""
	if close := closest("--"+unknown.GetSpecifiedName(), names); len(close) > 0 {
		hint = ": did you mean " + either(close) + "?"
	}
	return fmt.Errorf("unknown flag --%s%s", unknown.GetSpecifiedName(), hint)
}

// optionalDuration returns the given flag of a command whose value, a duration, may be left
// out, and so is written after "="; nil if there is none.
func optionalDuration(cmd *cobra.Command) (found *pflag.Flag) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "duration" && f.NoOptDefVal != "" {
			found = f
		}
	})
	return found
}

func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil
}

// separateValue returns an error for an argument that is the value of an optionalDuration,
// written as a separate word.
func separateValue(cmd *cobra.Command, given []string) error {
	f := optionalDuration(cmd)
	if f == nil || f.Value.String() != defaultOf(f).String() {
		return nil
	}
	if i := slices.IndexFunc(given, isDuration); i >= 0 {
		return fmt.Errorf("%s is taken for an argument, not for the value of --%s: write --%[2]s=%[1]s", given[i], f.Name)
	}
	return nil
}

// defaultOf returns the value of an optionalDuration that is given without one.
func defaultOf(f *pflag.Flag) time.Duration {
	d, _ := time.ParseDuration(f.NoOptDefVal) // a constant of the command
	return d
}

// checkValues checks the values of flags that several commands have.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		formats := formatsOf(f)
		number, _ := strconv.Atoi(f.Value.String())
		duration, _ := time.ParseDuration(f.Value.String())
		switch {
		case formats != nil && !slices.Contains(formats, f.Value.String()):
			err = fmt.Errorf("-o %s: no such output format; choose %s", f.Value, choice(formats))
		case f.Name == "wait" && duration <= 0:
			err = fmt.Errorf("--wait %v: give a positive duration, as in --wait=2m", f.Value)
		case f.Name == "request-timeout" && duration <= 0:
			err = fmt.Errorf("--request-timeout %v: give a positive duration, as in --request-timeout=30s", f.Value)
		case f.Name == "replicas" && (number < 1 || number > 16):
			err = fmt.Errorf("--replicas %v: use 1 to 16", f.Value)
		}
	})
	return err
}

// exclusiveGroups is the annotation with which cobra records the groups of a flag.
const exclusiveGroups = "cobra_annotation_mutually_exclusive"

// checkFlagGroups checks which flags are given together. cobra does the same after the
// arguments, with errors that are not usageErrors.
func checkFlagGroups(cmd *cobra.Command) error {
	err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
	given := map[string]string{} // the first flag of each group
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, group := range f.Annotations[exclusiveGroups] {
			if other := given[group]; other != "" {
				err = fmt.Errorf("--%s and --%s exclude each other: leave one out", other, f.Name)
			}
			given[group] = f.Name
		}
	})
	return err
}

// written returns a flag as it is on the command line.
func written(f *pflag.Flag, shorthands string) string {
	if shorthands != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// expected says which values a flag takes.
func expected(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "give a duration, as in --" + f.Name + "=90s or --" + f.Name + "=5m"
	case "bool":
		return "give true or false"
	case "int", "int32", "uint16":
		return "give a whole number"
	case "float64":
		return "give a number"
	}
	if values := formatsOf(f); values != nil {
		return "choose " + choice(values)
	}
	return "give one, as in --" + f.Name + "=" + strings.ToUpper(f.Name[strings.LastIndexByte(f.Name, '-')+1:])
}

// closest returns the names that differ from a word by few of their letters, or begin with
// it.
func closest(word string, names []string) (close []string) {
	const most = 2
	least := most
	for _, name := range names {
		letters := len(strings.TrimLeft(name, "-"))
		switch d := distance(strings.ToLower(word), name); {
		case d > min(most, letters/3): // with more, another word
		case d < least:
			least, close = d, []string{name}
		case d == least:
			close = append(close, name)
		}
	}
	if len(close) > 0 {
		return close
	}
	for _, name := range names {
		if len(strings.TrimLeft(word, "-")) > 1 && strings.HasPrefix(name, strings.ToLower(word)) {
			close = append(close, name)
		}
	}
	return close
}

// distance is the number of letters to insert, remove, replace or exchange with the next
// one to make b of a (optimal string alignment distance).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func either(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return choice(quoted)
}

// choice lists words as alternatives: "a", "a or b", "a, b or c".
func choice[S ~string](words []S) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// fileError is the error of a file that a flag or argument names. It says what to do.
func fileError(what, path string, err error) error {
	var at *fs.PathError
	var large *smallfile.TooLargeError
	if errors.As(err, &at) && at.Path == path {
		err = at.Err
	}
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &large):
		remedy = "; check the path"
	case errors.Is(err, fs.ErrPermission):
		remedy = "; check its owner and mode"
	case errors.Is(err, syscall.EISDIR):
		remedy = "; name a file"
	}
	if what != "" {
		path = what + " " + path
	}
	return fmt.Errorf("%s: %w%s", path, err, remedy)
}

// checkWritable returns an error if a file that a flag names cannot be written. A command
// calls it before its work, whose result would be lost. An existing file is not changed. A
// pipe or a device is not opened: its reader would see the end of a first writer. The empty
// path stands for a flag that is not given.
func checkWritable(flag, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	made := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = file.Close()
		if made {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		return fileError(flag, path, err)
	}
	return nil
}

// markUsage makes every mistake in flags and arguments of a command tree a usageError.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(flagError)
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			err := errors.Join(separateValue(c, given), checkValues(c), checkFlagGroups(c))
			if err == nil {
				err = args(c, given)
			}
			if err != nil {
				return wrongUsage(c, "%w", err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
