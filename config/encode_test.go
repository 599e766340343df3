package config

import (
	"reflect"
	"testing"
)

func TestADocumentReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"every field": valid(t),
		"few fields":  "cluster: \"12\"\nwireguard: {listenPort: 0}\noverlay: {listen: \"\", nodes: [{name: \"1.10\", underlay: fe80::1%eth0}]}\nmssClamp: off\n",
	} {
		t.Run(name, func(t *testing.T) {
			want, err := Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			written, err := want.YAML()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(written)
			if err != nil {
				t.Fatalf("%v\n%s", err, written)
			}
			got.source = want.source
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v\n%s", got, want, written)
			}
		})
	}
}
