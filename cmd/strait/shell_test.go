package main

import (
	"fmt"
	"strings"
)

// commandLines returns the command lines of strait in a shell script, without the program's
// name. It parses the shell that examples and documentation use.
func commandLines(shell string) (found [][]string) {
	shell = strings.ReplaceAll(shell, "\\\n", " ")
	heredoc := ""
	for line := range strings.Lines(shell) {
		if heredoc != "" {
			if strings.TrimSpace(line) == heredoc {
				heredoc = ""
			}
			continue
		}
		if _, end, ok := strings.Cut(line, "<<"); ok {
			heredoc = strings.Trim(strings.Fields(end)[0], `-'"`)
		}
		for _, words := range commands(line) {
			if len(words) > 1 && (words[0] == "strait" || words[0] == "bin/strait") {
				found = append(found, words[1:])
			}
		}
	}
	return found
}

// commands splits a line into commands, and each command into words, without redirections
// and comments.
func commands(line string) (all [][]string) {
	var words []string
	var word strings.Builder
	quote, inWord, skip := rune(0), false, false
	endWord := func() {
		if inWord && !skip {
			words = append(words, word.String())
		}
		if inWord {
			skip = false
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words, skip = nil, false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return all
		case r == '|' || r == ';' || r == '&' || r == '(' || r == ')':
			endCommand()
		case r == '<' || r == '>':
			endWord()
			skip = true
		case r == ' ' || r == '\t' || r == '\n':
			endWord()
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	endCommand()
	return all
}

// parses returns the command of a command line, and an error for wrong flags or arguments.
func parses(words []string) (path string, err error) {
	c, rest, err := newRoot().Find(words)
	if err != nil {
		return "", err
	}
	if err := c.ParseFlags(rest); err != nil {
		return "", fmt.Errorf("%s: %w", c.CommandPath(), err)
	}
	if help := c.Flags().Lookup("help"); help != nil && help.Changed {
		return c.CommandPath(), nil
	}
	return c.CommandPath(), c.ValidateArgs(c.Flags().Args())
}
