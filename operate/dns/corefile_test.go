package dns

import (
	"strings"
	"testing"
)

// kubeadm is a Corefile as kubeadm writes it.
const kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

const kubeadmConfigured = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa clusterset.local {
       multicluster clusterset.local
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local clusterset.local
       disable denial cluster.local clusterset.local
    }
    loop
    reload
    loadbalance
}
`

func TestACorefileIsConfiguredAndRevertedByteForByte(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"of kubeadm", kubeadm, kubeadmConfigured},
		{"without a block", ".:53 {\n\tkubernetes cluster.local # all\n\terrors\n}\n",
			".:53 {\n\tkubernetes cluster.local clusterset.local {\n\t    multicluster clusterset.local\n\t} # all\n\terrors\n}\n"},
		{"with CIDRs of reverse zones", ".:53 {\n  kubernetes cluster.local 10.96.0.0/12 fd00::/108 {\n    ttl 5\n  }\n}",
			".:53 {\n  kubernetes cluster.local 10.96.0.0/12 fd00::/108 clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n}"},
		{"with comments", "# { kubernetes\n.:53 { # }\n  kubernetes cluster.local { # {\n    # multicluster clusterset.local\n    ttl 5 # }\n  } # }\n}\n",
			"# { kubernetes\n.:53 { # }\n  kubernetes cluster.local clusterset.local { # {\n    # multicluster clusterset.local\n    multicluster clusterset.local\n    ttl 5 # }\n  } # }\n}\n"},
		{"with several server blocks", "example.org {\n  forward . 10.0.0.1\n}\n.:53 .:5353 {\n  kubernetes cluster.local {\n    ttl 5\n  }\n}\n",
			"example.org {\n  forward . 10.0.0.1\n}\n.:53 .:5353 {\n  kubernetes cluster.local clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n}\n"},
		{"with imports and snippets", "(log) {\n  errors\n  kubernetes x {\n  }\n}\n. {\n  import log\n  import custom/*.override\n  kubernetes {$DOMAIN} {\n    ttl 5\n  }\n}\nimport custom/*.server\n",
			"(log) {\n  errors\n  kubernetes x {\n  }\n}\n. {\n  import log\n  import custom/*.override\n  kubernetes {$DOMAIN} clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n}\nimport custom/*.server\n"},
		{"with quotations", ".:53 {\n  log . \"{type} } {\n }\"\n  kubernetes \"cluster.local\" {\n    labels \"a in (b, c)\"\n  }\n}\n",
			".:53 {\n  log . \"{type} } {\n }\"\n  kubernetes \"cluster.local\" clusterset.local {\n    multicluster clusterset.local\n    labels \"a in (b, c)\"\n  }\n}\n"},
		{"with carriage returns", ".:53 {\r\n  kubernetes cluster.local {\r\n    ttl 5\r\n  }\r\n}\r\n",
			".:53 {\r\n  kubernetes cluster.local clusterset.local {\r\n    multicluster clusterset.local\n    ttl 5\r\n  }\r\n}\r\n"},
		{"with caches", ".:53 {\n  kubernetes cluster.local. {\n    ttl 5\n  }\n  cache 30 {\n    success 100\n    disable denial example.org Cluster.local # not cached\n  }\n}\nexample.org {\n  cache {\n    disable success cluster.local\n  }\n}\n",
			".:53 {\n  kubernetes cluster.local. clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n  cache 30 {\n    success 100\n    disable denial example.org Cluster.local clusterset.local # not cached\n  }\n}\nexample.org {\n  cache {\n    disable success cluster.local\n  }\n}\n"},
		{"with caches and two plugins in one block", ".:53 {\n  kubernetes cluster.local {\n    ttl 5\n  }\n  kubernetes other.local {\n    ttl 5\n  }\n  cache 30 {\n    disable success cluster.local\n  }\n}\n",
			".:53 {\n  kubernetes cluster.local clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n  kubernetes other.local clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n  cache 30 {\n    disable success cluster.local clusterset.local\n  }\n}\n"},
		{"with a cache that holds other zones", ".:53 {\n  kubernetes cluster.local {\n    ttl 5\n  }\n  cache 30 {\n    disable success\n    disable denial example.org\n  }\n}\n",
			".:53 {\n  kubernetes cluster.local clusterset.local {\n    multicluster clusterset.local\n    ttl 5\n  }\n  cache 30 {\n    disable success\n    disable denial example.org\n  }\n}\n"},
		{"of a zone alone", "cluster.local:1053 {\n  kubernetes cluster.local\n}\n.:1053 {\n  forward . /etc/resolv.conf\n}\n",
			"cluster.local:1053 {\n  kubernetes cluster.local\n}\n.:1053 {\n  forward . /etc/resolv.conf\n}\n\n" + serverBlockText("1053")},
		{"of a zone alone, at addresses", "cluster.local {\n  bind 192.0.2.1\n  bind lo\n  kubernetes cluster.local\n}\n",
			"cluster.local {\n  bind 192.0.2.1\n  bind lo\n  kubernetes cluster.local\n}\n\n" + serverBlockText("53", "192.0.2.1", "lo")},
		{"of a zone alone, without a last line break", "cluster.local {\n  kubernetes cluster.local\n}",
			"cluster.local {\n  kubernetes cluster.local\n}\n" + serverBlockText("53")},
	} {
		t.Run(c.name, func(t *testing.T) {
			is, err := Configure(c.text)
			if err != nil || is != c.want {
				t.Fatalf("%v\n%s\nwant:\n%s", err, is, c.want)
			}
			if again, err := Configure(is); err != nil || again != is {
				t.Errorf("a second time: %v\n%s", err, again)
			}
			if before, err := Remove(is); err != nil || before != c.text {
				t.Errorf("removed: %v\n%s", err, before)
			}
			if same, err := Remove(c.text); err != nil || same != c.text {
				t.Errorf("removed from what was not configured: %v\n%s", err, same)
			}
		})
	}
}

func TestAZoneThatWasConfiguredByHandIsRemoved(t *testing.T) {
	text := ".:53 {\n  kubernetes cluster.local Clusterset.Local. in-addr.arpa {\n    ttl 5\n    multicluster clusterset.local # by hand\n  }\n  cache {\n    disable success clusterset.local in-addr.arpa\n    disable denial clusterset.local\n  }\n}\n"
	if !Served(text) {
		t.Error("it is not served")
	}
	const want = ".:53 {\n  kubernetes cluster.local in-addr.arpa {\n    ttl 5\n  }\n  cache {\n    disable success in-addr.arpa\n    disable denial clusterset.local\n  }\n}\n"
	if is, err := Remove(text); err != nil || is != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, is, want)
	}
}

func TestACorefileThatCannotBeConfiguredIsRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no server block has the plugin kubernetes"},
		{"an imported plugin", "(k) {\n  kubernetes cluster.local\n}\n. {\n  import k\n}\n", "if it is imported, add the zone clusterset.local"},
		{"another product", kubeadm + "clusterset.local:53 {\n  forward . 10.96.0.20\n}\n", "line 24: the server block of clusterset.local:53 answers for names in clusterset.local"},
		{"another product for a part", kubeadm + "svc.clusterset.local:53 {\n  forward . 10.96.0.20\n}\n", "the server block of svc.clusterset.local:53"},
		{"a zone above", kubeadm + "local {\n  forward . 10.96.0.20\n}\n", "the server block of local answers"},
		{"without multicluster", ". {\n  kubernetes cluster.local clusterset.local {\n    ttl 5\n  }\n}\n", `line 2: the plugin kubernetes serves clusterset.local without "multicluster clusterset.local"`},
		{"without zones", ". {\n  kubernetes\n}\n", "line 2: the plugin kubernetes names no zones"},
		{"an empty block", ". {\n  kubernetes cluster.local {\n  }\n}\n", "line 2: the format of plugin kubernetes is not supported"},
		{"addresses with exceptions", "cluster.local {\n  bind lo {\n    except 127.0.0.1\n  }\n  kubernetes cluster.local\n}\n", "line 2: the format of plugin bind is not supported; add a server block for clusterset.local with it"},
		{"a block in one line", ". {\n  kubernetes cluster.local { ttl 5\n  }\n}\n", "line 2: the format of plugin kubernetes is not supported"},
		{"without braces", ".:53\nkubernetes cluster.local\n", "line 2: the server block of .:53 has no braces"},
		{"not closed", ". {\n  kubernetes cluster.local\n", "the server block of . is not closed"},
		{"a plugin that is not closed", ". {\n  kubernetes cluster.local {\n    ttl 5\n", "the block of kubernetes is not closed"},
		{"a brace too many", ". {\n  errors }\n}\n", "line 2: } after errors without an opening brace"},
		{"two at the end", ". {\n  errors\n}\n}\n", "line 4: } where the address of a server block is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			is, err := Configure(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, is)
			}
		})
	}
}

func TestWordsAreReadAsCoreDNSReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"a b\tc\n d":             "a|b|c|d",
		"a#b c\n# d e\nf":        "a|c|f",
		`"a b" "" "c\"d"e`:       `a b||c"d|e`,
		`"a\b" "c\\" d`:          `a\b|c\\|d`,
		"a\rb\r\nc":              "ab|c",
		"\uFEFFa \u00a0b\u2028c": "a|b|c",
		`a"b "c`:                 `a"b|c`,
		`{a} {$B} }`:             "{a}|{$B}|}",
	} {
		var is []string
		for _, w := range lex(text) {
			is = append(is, w.text)
		}
		if got := strings.Join(is, "|"); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

func TestAnEditedServerBlockIsNotRemoved(t *testing.T) {
	text := "cluster.local {\n  kubernetes cluster.local\n}\n" + strings.ReplaceAll(serverBlockText("53"), "cache 30", "cache 5")
	_, err := Remove(text)
	if err == nil || !strings.Contains(err.Error(), "line 5: the server block of clusterset.local:53 is not as strait dns configure wrote it; remove it by hand") {
		t.Errorf("%v", err)
	}
}

func FuzzCorefilesAreConfiguredAndReverted(f *testing.F) {
	f.Add(kubeadm)
	f.Add(kubeadmConfigured)
	f.Add("cluster.local {\n  kubernetes cluster.local\n}\n" + serverBlockText("53"))
	f.Add("cluster.local {\n  bind lo\n  kubernetes cluster.local\n}\n" + serverBlockText("53", "lo"))
	f.Add("\uFEFF(s) {\n a\n}\na, b\n{\nkubernetes \"c\" { #x\n\"d\n\" e\\\"\n}\n}\nimport x\n")
	f.Fuzz(func(t *testing.T, text string) {
		configured, err := Configure(text)
		if err != nil {
			return
		}
		if !Served(configured) {
			t.Errorf("it is not served:\n%s", configured)
		}
		if again, err := Configure(configured); err != nil || again != configured {
			t.Errorf("a second time: %v\n%s", err, again)
		}
		if Served(text) {
			return
		}
		if before, err := Remove(configured); err != nil || before != text {
			t.Errorf("removed: %v\n%q\nwant:\n%q", err, before, text)
		}
		// Only words of the edits are new.
		var words []string
		for _, w := range lex(configured) {
			words = append(words, w.text)
		}
		for _, w := range lex(text) {
			for len(words) > 0 && words[0] != w.text {
				words = words[1:]
			}
			if len(words) == 0 {
				t.Fatalf("%q is missing:\n%s", w.text, configured)
			}
			words = words[1:]
		}
	})
}
