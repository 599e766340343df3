package main

import "testing"

func TestTheVersionIsThatOfTheLinkerElseThatOfTheModule(t *testing.T) {
	for _, c := range []struct{ linked, module, want string }{
		{"v0.1.0", "v0.0.0-20260101000000-0123456789ab", "v0.1.0"},
		{"dev", "v0.1.0", "v0.1.0"}, // go install ...@latest
		{"dev", "(devel)", "dev"},
		{"dev", "", "dev"},
	} {
		if is := versionOf(c.linked, c.module); is != c.want {
			t.Errorf("linked %q, module %q: version %q, want %q", c.linked, c.module, is, c.want)
		}
	}
}
