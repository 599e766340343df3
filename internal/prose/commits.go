package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
)

// since is the last commit before the rule for subjects was checked. Without a range, commits after it are checked.
const since = "3ec00662f9ad7b9f98749cceccd854580e5c00fe"

// mostOfASubject is the number of characters that a subject may have. Longer ones are cut off in lists.
const mostOfASubject = 72

var (
	subject = regexp.MustCompile(`^[a-z0-9.][\w./*{}-]*(, [\w./*{}-]+)*: (\S+)`)
	// What follows the colon begins in lower case, except acronyms and names with several capitals or digits.
	capital = regexp.MustCompile(`^[A-Z][a-z]+\b`)
	// The forms of common verbs that are not the imperative.
	notImperative = regexp.MustCompile(`^((add|allow|answer|avoid|build|call|change|check|clear|close|correct|count|detect|document|drop|explain|export|extend|fix|follow|give|handle|hold|keep|let|limit|log|make|mark|move|name|open|pin|prefer|prevent|print|read|record|reject|remove|rename|replace|report|restore|return|rework|run|send|set|show|skip|sort|split|start|state|stop|support|take|test|update|use|validate|wait|write)(s|d|ed|ing)|fixes|dropped|gave|held|kept|made|pinned|ran|sent|stopped|took|wrote)$`)
)

// checkCommits writes what is wrong with the subjects of commits: of those of a range A..B, or of all after since. It
// returns the number of findings. Without a range, a clone that lacks since, for instance a shallow one, is not checked.
func checkCommits(w io.Writer, args []string) (int, error) {
	if len(args) == 0 {
		if err := exec.Command("git", "merge-base", "--is-ancestor", since, "HEAD").Run(); err != nil {
			fmt.Fprintf(w, "prose: commits are not checked: this clone lacks %.7s\n", since)
			return 0, nil
		}
		args = []string{since + "..HEAD"}
	}
	out, err := exec.Command("git", append([]string{"log", "--no-merges", "--format=%h %s"}, append(args, "--")...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("git log %s: %w", strings.Join(args, " "), err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		id, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if problem := checkSubject(text); problem != "" {
			fmt.Fprintf(w, "commit %s: %q: %s\n", id, text, problem)
			found++
		}
	}
	return found, nil
}

// checkSubject returns what is wrong with the subject of a commit, or "".
func checkSubject(text string) string {
	m := subject.FindStringSubmatch(text)
	switch n := len([]rune(text)); {
	case strings.HasPrefix(text, `Revert "`):
		return ""
	case m == nil:
		return `begin with the package, as in "gateway: answer ARP"`
	case n > mostOfASubject:
		return fmt.Sprintf("%d characters; use at most %d", n, mostOfASubject)
	case capital.MatchString(m[2]):
		return "continue in lower case after the colon"
	case notImperative.MatchString(m[2]):
		return "use the imperative: add, not adds or added"
	case strings.HasSuffix(text, "."):
		return "remove the full stop"
	}
	return ""
}
