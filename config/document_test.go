package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestTheReferenceExampleIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(string(text)); err != nil {
		t.Error(err)
	}
}

func TestDocumentsThatHoldNothingAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no byte": "", "only a comment": "# gateway\n", "only a marker": "---\n", "null": "~\n",
	} {
		want := "line 1: the file is empty; begin with apiVersion: strait.dev/v1alpha1"
		if err := check(text); err == nil || err.Error() != want {
			t.Errorf("%s: got  %v\nwant %s", name, err, want)
		}
	}
}

func TestADocumentThatIsNotAMappingIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"gateway\n": "line 1: is a single value, not a mapping of fields; write a mapping of fields",
		"- a\n":     "line 1: is a list, not a mapping of fields; write a mapping of fields",
	} {
		if err := check(text); err == nil || err.Error() != want {
			t.Errorf("%q: got  %v\nwant %s", text, err, want)
		}
	}
}

func TestAHugeDocumentIsRefusedUnread(t *testing.T) {
	t.Parallel()
	_, err := Parse(make([]byte, MaxSize+1))
	want := "67108865 bytes are too many; keep the configuration under 67108864 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A billion laughs: resolved, this is 10^9 items.
func TestAliasesAreRefusedAndNotResolved(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		last := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Join([]string{last, last, last, last, last, last, last, last, last, last}, ","))
	}
	b.WriteString("mappings: *a8\n")
	err := check(b.String())
	want := "line 10: mappings: is an alias, which is not supported; write the value out"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s at the end", err, want)
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	t.Parallel()
	if err := check("mappings: " + strings.Repeat("[", 1<<20)); err == nil {
		t.Error("no error")
	}
}

func TestErrorsBeginWithTheFile(t *testing.T) {
	t.Parallel()
	text := strings.Replace(valid(t), "vni: 101", "vni: 0", 1)
	text = strings.Replace(text, "mtu: 0", "mtu: 99999", 1)
	want := `gateway.yaml:9: overlay.mtu: 99999 is not an MTU that every packet can rely on; use 0 to derive it from the interfaces, or 1280 to 65535
gateway.yaml:14: overlay.nodes[0].vni: 0 is not a VNI; use 1 to 16777215`
	err := WithFile("gateway.yaml", check(text))
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 2 {
		t.Fatalf("holds %v, want two problems", problems)
	}
	place := Problem{Line: 14, Column: 10, Field: "overlay.nodes[0].vni", Text: "0 is not a VNI", Remedy: "use 1 to 16777215"}
	if problems[1] != place {
		t.Errorf("got  %+v\nwant %+v", problems[1], place)
	}
}

func TestTheFileIsNamedWhereThereIsNoLine(t *testing.T) {
	t.Parallel()
	err := WithFile("gateway.yaml", Problems{{Field: "cluster", Text: "missing", Remedy: "set it"}})
	if want := "gateway.yaml: cluster: missing; set it"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	err = WithFile("gateway.yaml", os.ErrNotExist)
	if want := "gateway.yaml: file does not exist"; err.Error() != want || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %q, want %q, wrapping its cause", err, want)
	}
	if err := WithFile("gateway.yaml", nil); err != nil {
		t.Errorf("nil becomes %v", err)
	}
}

func TestThousandsOfProblemsStayOneReadableMessage(t *testing.T) {
	t.Parallel()
	text := "overlay:\n  nodes:\n" + strings.Repeat("  - {vnj: 1}\n", 5000)
	err := check(text)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 5000 {
		t.Fatalf("%d problems, want 5000", len(problems))
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || lines[50] != "and 4950 more problems" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestLongValuesAreCutInErrors(t *testing.T) {
	t.Parallel()
	err := check("cluster: a\noverlay: {mtu: " + strings.Repeat("é", 1000) + "}\n")
	want := `line 2: overlay.mtu: "` + strings.Repeat("é", 32) + `..." is not a decimal whole number; use ` + mtuRange
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
