//go:build apiserver

package nodehelper

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// annotate sets the annotation that makes nodes detach, or removes it.
func (w *fixture) annotate(t *testing.T, value string) {
	t.Helper()
	body := `{"metadata":{"annotations":{"` + v1alpha1.UninstallAnnotation + `":` + value + `}}}`
	_, err := w.admin.ClusterNetworks().Patch(t.Context(), v1alpha1.ClusterNetworkName, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	must(t, err)
}

// released waits until the node says that it has nothing.
func (w *fixture) released(t *testing.T) {
	t.Helper()
	w.eventually(t, "the node detaches", func() bool {
		a, err := w.admin.NodeAttachments().Get(t.Context(), "node-1", metav1.GetOptions{})
		return err == nil && released(a.Status)
	})
}

// ours is all that the node has of Strait.
func (w *fixture) ours(t *testing.T) string {
	t.Helper()
	var found []string
	for _, look := range []struct {
		of      string
		command []string
	}{
		{"cni-strait", []string{"ip", "-br", "link"}},
		{"6091", []string{"ip", "rule"}}, {"6091", []string{"ip", "-6", "rule"}},
		{"proto 91", []string{"ip", "route", "show", "table", "all"}}, {"proto 91", []string{"ip", "-6", "route", "show", "table", "all"}},
		{"strait", []string{"nft", "list", "tables"}},
	} {
		for line := range strings.SplitSeq(w.node.Run(t, look.command[0], look.command[1:]...), "\n") {
			if strings.Contains(line, look.of) {
				found = append(found, line)
			}
		}
	}
	return strings.Join(found, "\n")
}

func (w *fixture) pings() bool {
	_, err := w.node.Try("ping", "-c1", "-W1", "10.71.2.9")
	return err == nil
}

func TestTheAnnotationTakesEverythingAwayAndBack(t *testing.T) {
	w := newFixture(t)
	run := func() (halt func()) { return w.run(t) } // for longer than one step
	halt := run()
	w.ready(t, metav1.ConditionTrue, reasonReady)
	if w.ours(t) == "" {
		t.Fatal("there is nothing to release")
	}
	w.annotate(t, `"now"`)
	w.released(t)
	if left := w.ours(t); left != "" {
		t.Errorf("the node says that it has nothing, and has\n%s", left)
	}
	w.ready(t, metav1.ConditionFalse, reasonUninstall)

	t.Run("later objects are not set up, and foreign additions are removed", func(t *testing.T) {
		w.gatewayAt(t, "192.0.2.12")
		w.node.IP(t, "link add cni-strait00000 type veth peer name peer-a")
		w.eventually(t, "the link is gone", func() bool { return w.ours(t) == "" })
	})
	t.Run("a helper that is started again stays away", func(t *testing.T) {
		halt()
		w.node.IP(t, "link add cni-strait00000 type veth peer name peer-b") // as if it had been killed in the middle
		halt = run()
		w.eventually(t, "the link is gone", func() bool { return w.ours(t) == "" })
	})
	t.Run("without the annotation everything comes back", func(t *testing.T) {
		w.gatewayAt(t, "192.0.2.10")
		w.annotate(t, "null")
		a := w.ready(t, metav1.ConditionTrue, reasonReady)
		if meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReleased) != nil {
			t.Errorf("the node still says whether it has nothing: %+v", a.Status.Conditions)
		}
		w.eventually(t, "packets cross", w.pings)
	})
	t.Run("objects that go bring nothing back, as an uninstall removes them before the helper ends", func(t *testing.T) {
		w.annotate(t, `"again"`)
		w.released(t)
		must(t, w.admin.ClusterNetworks().Delete(t.Context(), v1alpha1.ClusterNetworkName, metav1.DeleteOptions{}))
		must(t, w.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
		must(t, w.admin.NodeAttachments().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
		for range 5 { // longer than the helper takes to act
			time.Sleep(2 * applyInterval)
			if is := w.ours(t); is != "" {
				t.Fatalf("without objects the node got\n%s", is)
			}
		}
		halt()
		run() // which sees no ClusterNetwork at all
		for range 5 {
			time.Sleep(2 * applyInterval)
			if is := w.ours(t); is != "" {
				t.Fatalf("a helper without objects set up\n%s", is)
			}
		}
	})
}
