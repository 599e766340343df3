package localsocket

import (
	"fmt"
	"net/url"
	"testing"
)

func TestARequestIsReadAsItWasWritten(t *testing.T) {
	want := CaptureRequest{Stages: []string{"inner", "overlay"}, Filter: "host 10.0.0.1 && !tcp port 80", Snap: 96, Packets: 5}
	q, err := url.ParseQuery(want.query())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadCapture(q)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ReadCapture(url.Values{"snap": {"all"}}); err == nil {
		t.Error("no number, and no error")
	}
}
