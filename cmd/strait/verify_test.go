package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVerifyRejectsFlagsThatExcludeEachOther(t *testing.T) {
	for arguments, want := range map[string]string{
		"verify --short --remote-context b":            "--short tests one cluster",
		"verify --target 10.71.2.9 --remote-context b": "--target is for access to one cluster",
		"verify --short --target 10.71.2.9":            "--short starts no pod",
		"verify --target web":                          "write an address",
		"verify --target fe80::1%eth0":                 "write an address",
		"verify a b --remote-context b":                "name one",
		"verify -o xml":                                "no such output format",
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetErr(&out)
		if code := execute(root, strings.Fields(arguments)); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("strait %s: exit %d and %q, want %d and %q", arguments, code, out.String(), exitUsage, want)
		}
	}
}

func TestAnAgentRunsTheTestsOfAnOrder(t *testing.T) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetIn(strings.NewReader(`{"sequences":[[{"id":"x","protocol":"smoke","to":"127.0.0.1:1","patience":1000000}]]}`))
	if code := execute(root, []string{"agent", "probe"}); code != exitOK || !strings.Contains(out.String(), `"id":"x","failure":"not-permitted"`) {
		t.Errorf("exit %d and %q, want a result for each check", code, out.String())
	}
	root = newRoot()
	root.SetErr(&out)
	root.SetIn(strings.NewReader(""))
	if code := execute(root, []string{"agent", "probe"}); code != exitFailed || !strings.Contains(out.String(), "read the order from standard input: EOF") {
		t.Errorf("exit %d and %q, want an error about the missing order", code, out.String())
	}
}
