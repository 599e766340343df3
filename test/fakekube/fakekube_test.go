package fakekube_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/fakekube"
)

func TestFakeServerFulfilsTheContract(t *testing.T) {
	t.Parallel()
	s := fakekube.New()
	runContract(t, s.Config(), func(name string) { s.Add(&corev1.Namespace{ObjectMeta: named("", name)}) })
}

func TestNewKeepsFieldsOfObjects(t *testing.T) {
	t.Parallel()
	born := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	given := podOn("a", "p", "n")
	given.UID, given.CreationTimestamp, given.Status.Phase = "u", born, corev1.PodRunning
	s := fakekube.New(given)
	is, err := s.Client(t).Pods("a").Get(t.Context(), "p", metav1.GetOptions{})
	must(t, err)
	if is.UID != "u" || !is.CreationTimestamp.Equal(&born) || is.Status.Phase != corev1.PodRunning || is.ResourceVersion == "" {
		t.Errorf("got %+v", is)
	}
}

// follow runs a cache of all peerings until the test ends.
func follow(t *testing.T, c *client.Client) *client.Cache[*v1alpha1.Peering] {
	all := c.Peerings().Cache("")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { all.RunWithContext(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	if !cache.WaitForCacheSync(ctx.Done(), all.HasSynced) {
		t.Fatal("no first list")
	}
	return all
}

// away stops the server for an hour.
//
//strait:virtualtime
func away(s *fakekube.Server) {
	s.Stop()
	time.Sleep(time.Hour)
	s.Start()
}

// silent makes the server answer no request for an hour.
//
//strait:virtualtime
func silent(s *fakekube.Server) {
	s.Pause()
	time.Sleep(time.Hour)
	s.Resume()
}

func TestCacheRecoversFromFaultsInVirtualTime(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*fakekube.Server){
		"none":    func(*fakekube.Server) {},
		"away":    away,
		"silent":  silent,
		"breaks":  func(s *fakekube.Server) { s.BreakWatches() },
		"compact": func(s *fakekube.Server) { s.Compact(); s.BreakWatches() },
		"backup":  func(s *fakekube.Server) { s.Restore(s.Snapshot()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := fakekube.New(peering("first"))
				c := s.Client(t)
				all := follow(t, c)
				fault(s)
				_, err := c.Peerings().Create(t.Context(), peering("second"), metav1.CreateOptions{})
				must(t, err)
				must(t, c.Peerings().Delete(t.Context(), "first", metav1.DeleteOptions{}))
				time.Sleep(5 * time.Minute) // longer than a client waits between two attempts
				if got := all.List(); len(got) != 1 || got[0].Name != "second" {
					t.Errorf("the cache has %v", got)
				}
			})
		})
	}
}

func TestRestoreUndoesLaterWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New(peering("kept"))
		c, backup := s.Client(t), s.Snapshot()
		must(t, c.Peerings().Delete(t.Context(), "kept", metav1.DeleteOptions{}))
		late, err := c.Peerings().Create(t.Context(), peering("undone"), metav1.CreateOptions{})
		must(t, err)
		all := follow(t, c)
		s.Restore(backup)
		_, err = c.Peerings().List(t.Context(), metav1.ListOptions{ResourceVersion: late.ResourceVersion})
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("a list of a future version: %v", err)
		}
		time.Sleep(time.Minute)
		if got := all.List(); len(got) != 1 || got[0].Name != "kept" {
			t.Errorf("the cache has %v", got)
		}
	})
}

func TestFaultsReturnTheGivenErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New(peering("b"))
		c := s.Client(t)
		n := 0
		stop := s.Fail(func(q fakekube.Request) error {
			if n++; n%2 == 1 && q.Verb == "get" && q.Resource == "peerings" {
				return apierrors.NewServiceUnavailable("busy")
			}
			return nil
		})
		if _, err := c.Peerings().Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the first: %v", err)
		}
		if _, err := c.Peerings().Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
			t.Errorf("the second: %v", err)
		}
		stop()
		if _, err := c.Peerings().Get(t.Context(), "b", metav1.GetOptions{}); err != nil || n != 2 {
			t.Errorf("after the fault: %v, %d calls", err, n)
		}
		s.Stop()
		if _, err := c.Peerings().Get(t.Context(), "b", metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while the server is away: %v", err)
		}
		s.Start()
		s.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Peerings().Get(ctx, "b", metav1.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the server is silent: %v", err)
		}
	})
}

func TestServiceAccountIsLimitedToItsGrants(t *testing.T) {
	t.Parallel()
	s := fakekube.New(peering("b"))
	c, err := client.New(s.ServiceAccount(t, "strait", "node", rbac.Node))
	must(t, err)
	if _, err := c.Peerings().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	_, err = c.Pods("strait").Get(t.Context(), "p", metav1.GetOptions{})
	if want := `pods "p" is forbidden: User "system:serviceaccount:strait:node" cannot get resource "pods" in API group "" in the namespace "strait"`; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	self, err := c.Self(t.Context())
	if self.Username != "system:serviceaccount:strait:node" || self.UID == "" || err != nil {
		t.Errorf("it is %+v, %v", self, err)
	}
}

func TestWithoutDefinitionsThereAreNoPeerings(t *testing.T) {
	t.Parallel()
	s := fakekube.New(peering("b"))
	s.DeleteCRDs()
	if _, err := s.Client(t).Peerings().Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != "the server could not find the requested resource (get peerings.strait.dev b)" {
		t.Errorf("without definitions: %v", err)
	}
	s.InstallCRDs()
	if _, err := s.Client(t).Peerings().Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("with new ones: %v", err)
	}
}
