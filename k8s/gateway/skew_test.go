package gateway

import (
	"strings"
	"testing"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestTheStatusTellsOfAnotherVersionForAsLongAsItIsThere(t *testing.T) {
	var entry v1alpha1.GatewayReportStatus
	recordResults(&entry, []control.Result{{}, {Err: &control.Skew{Theirs: []int{7}, Ours: []int{1}}}})
	if !strings.HasSuffix(entry.Skew, "upgrade this gateway") || entry.Refusal != "" {
		t.Errorf("entry %+v", entry)
	}
	entry = v1alpha1.GatewayReportStatus{}
	recordResults(&entry, []control.Result{{Refused: "no"}})
	if entry.Skew != "" || entry.Refusal != "no" {
		t.Errorf("entry %+v", entry)
	}
}
