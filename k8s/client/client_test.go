package client_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/fakekube"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func peering(name string) *v1alpha1.Peering {
	return &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PeeringSpec{
			ClusterID: v1alpha1.ClusterID(name),
			Prefixes:  v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}},
		},
	}
}

func TestEveryKindIsCreatedReadAndDeleted(t *testing.T) {
	t.Parallel()
	everyKind(t, fakekube.New().Client(t))
}

func everyKind(t *testing.T, c *client.Client) {
	ctx := t.Context()
	whole(ctx, t, c.ClusterNetworks(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: v1alpha1.ClusterNetworkSpec{ExternalCIDRs: []v1alpha1.CIDR{}, RemapPools: []v1alpha1.CIDR{}}},
		func(l *v1alpha1.ClusterNetworkList) int { return len(l.Items) })
	whole(ctx, t, c.Peerings(), peering("b"), func(l *v1alpha1.PeeringList) int { return len(l.Items) })
	whole(ctx, t, c.NodeAttachments(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec: v1alpha1.NodeAttachmentSpec{Index: 1, UnderlayAddresses: []v1alpha1.IP{"192.0.2.21"}, InternalAddresses: []v1alpha1.IP{"10.80.0.11"}}},
		func(l *v1alpha1.NodeAttachmentList) int { return len(l.Items) })
	whole(ctx, t, c.AddressClaims(), &v1alpha1.AddressClaim{ObjectMeta: metav1.ObjectMeta{Name: "10.71.0.0-16"},
		Spec: v1alpha1.AddressClaimSpec{Prefix: "10.71.0.0/16", Pool: v1alpha1.PoolRemap, Owner: v1alpha1.ClaimOwner{Kind: "Peering", Name: "b"}}},
		func(l *v1alpha1.AddressClaimList) int { return len(l.Items) })
	whole(ctx, t, c.AddressMappings(), &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: "database"},
		Spec: v1alpha1.AddressMappingSpec{External: "10.70.1.9", Target: "192.0.2.77"}},
		func(l *v1alpha1.AddressMappingList) int { return len(l.Items) })
}

// whole takes an object through its life.
func whole[T client.Object, L client.List](ctx context.Context, t *testing.T, k *client.Kind[T, L], object T, length func(L) int) {
	t.Helper()
	created, err := k.Create(ctx, object, metav1.CreateOptions{})
	must(t, err)
	read, err := k.Get(ctx, object.GetName(), metav1.GetOptions{})
	must(t, err)
	if created.GetUID() == "" || read.GetUID() != created.GetUID() {
		t.Errorf("%s: created as %s, read as %s", object.GetName(), created.GetUID(), read.GetUID())
	}
	list, err := k.List(ctx, metav1.ListOptions{})
	must(t, err)
	if length(list) != 1 || list.GetResourceVersion() == "" {
		t.Errorf("%s: listed %d, want 1, of a moment", object.GetName(), length(list))
	}
	other := metav1.NewUIDPreconditions("of-another")
	if err := k.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: other}); !apierrors.IsConflict(err) {
		t.Errorf("%s: deleted under another's UID: %v, want a conflict", object.GetName(), err)
	}
	must(t, k.Delete(ctx, object.GetName(), metav1.DeleteOptions{}))
	if _, err := k.Get(ctx, object.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: after it was deleted: %v, want not found", object.GetName(), err)
	}
}

func TestEachManagerAppliesItsOwnFields(t *testing.T) {
	t.Parallel()
	ownFields(t, fakekube.New().Client(t))
}

func ownFields(t *testing.T, c *client.Client) {
	ctx := t.Context()
	created, err := c.Peerings().Apply(ctx, peering("applied"), "admin")
	must(t, err)
	t.Cleanup(func() { must(t, c.Peerings().Delete(context.Background(), "applied", metav1.DeleteOptions{})) })

	status := func(s v1alpha1.PeeringStatus) *v1alpha1.Peering {
		return &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "applied"}, Status: s}
	}
	gateway := func(g v1alpha1.GatewayStatus) v1alpha1.PeeringStatus {
		return v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{g}}
	}
	_, err = c.Peerings().ApplyStatus(ctx, status(gateway(v1alpha1.GatewayStatus{Name: "applied-0", Number: 7})), "controller")
	must(t, err)
	_, err = c.Peerings().ApplyStatus(ctx, status(gateway(v1alpha1.GatewayStatus{Name: "applied-0", MTU: 1370})), "gateway")
	must(t, err)
	got, err := c.Peerings().ApplyStatus(ctx, status(v1alpha1.PeeringStatus{}), "other")
	must(t, err)
	if len(got.Status.Gateways) != 1 || got.Status.Gateways[0].Number != 7 || got.Status.Gateways[0].MTU != 1370 {
		t.Errorf("two managers applied a field each, and the status is %+v", got.Status.Gateways)
	}
	got, err = c.Peerings().ApplyStatus(ctx, status(v1alpha1.PeeringStatus{}), "controller")
	must(t, err)
	if len(got.Status.Gateways) != 1 || got.Status.Gateways[0].Number != 0 || got.Status.Gateways[0].MTU != 1370 {
		t.Errorf("one of them released its field, and the status is %+v", got.Status.Gateways)
	}
	if got.Spec.ClusterID != "applied" {
		t.Errorf("who applied a status changed the spec: %+v", got.Spec)
	}

	late := status(v1alpha1.PeeringStatus{MTU: 1370})
	late.ResourceVersion = created.ResourceVersion
	if _, err := c.Peerings().ApplyStatus(ctx, late, "controller"); !apierrors.IsConflict(err) {
		t.Errorf("applied to a version that is past: %v, want a conflict", err)
	}
	late.Name, late.ResourceVersion = "missing", ""
	if _, err := c.Peerings().ApplyStatus(ctx, late, "controller"); !apierrors.IsNotFound(err) {
		t.Errorf("a status of what is not there: %v, want not found", err)
	}
}

// follow runs a cache of all Peerings and one of Peering b until the test ends, and
// returns how often the second has changed.
func follow(t *testing.T, c *client.Client) (all, one *client.Cache[*v1alpha1.Peering], changes <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	all, one = c.Peerings().Cache(""), c.Peerings().Cache("b")
	told := make(chan struct{}, 100)
	must(t, one.Notify(func() { told <- struct{}{} }))
	done := make(chan struct{}, 2)
	for _, follower := range []*client.Cache[*v1alpha1.Peering]{all, one} {
		go func() { follower.RunWithContext(ctx); done <- struct{}{} }()
	}
	t.Cleanup(func() { cancel(); <-done; <-done })
	if !cache.WaitForCacheSync(ctx.Done(), all.HasSynced, one.HasSynced) {
		t.Fatal("no first list")
	}
	return all, one, told
}

func names(of *client.Cache[*v1alpha1.Peering]) (names []string) {
	for _, p := range of.List() {
		names = append(names, p.Name)
	}
	return names
}

func TestACacheFollowsTheAPIServerAndStaysWhileThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New()
		c := s.Client(t)
		all, one, changes := follow(t, c)
		for _, name := range []string{"c", "b"} {
			_, err := c.Peerings().Create(t.Context(), peering(name), metav1.CreateOptions{})
			must(t, err)
		}
		synctest.Wait()
		if !slices.Equal(names(all), []string{"b", "c"}) || !slices.Equal(names(one), []string{"b"}) || len(changes) != 1 {
			t.Errorf("the caches have %v and %v, after %d changes", names(all), names(one), len(changes))
		}
		s.Stop()
		time.Sleep(time.Hour)
		b, ok := all.Get("b")
		if !ok || b.Spec.ClusterID != "b" || b.ManagedFields != nil {
			t.Errorf("while the API server is away: %+v", b)
		}
		s.Start()
		must(t, c.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
		time.Sleep(5 * time.Minute) // more than client-go waits between two tries
		if !slices.Equal(names(all), []string{"c"}) || len(names(one)) > 0 || len(changes) != 2 {
			t.Errorf("the caches have %v and %v, after %d changes", names(all), names(one), len(changes))
		}
	})
}

func TestF6_ACacheLearnsWhatABackupUndidInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New(peering("kept"))
		c := s.Client(t)
		all, _, _ := follow(t, c)
		backup := s.Snapshot()
		must(t, c.Peerings().Delete(t.Context(), "kept", metav1.DeleteOptions{}))
		seen, err := c.Peerings().Create(t.Context(), peering("undone"), metav1.CreateOptions{})
		must(t, err)
		synctest.Wait()
		if !slices.Equal(names(all), []string{"undone"}) {
			t.Errorf("before the restore the cache has %v", names(all))
		}
		s.Stop()
		time.Sleep(time.Minute)
		s.Restore(backup)
		s.Start()
		for version := ""; version <= seen.ResourceVersion; { // at one moment: the cache meets versions that it saw
			p, err := c.Peerings().Create(t.Context(), peering("passing"), metav1.CreateOptions{})
			must(t, err)
			must(t, c.Peerings().Delete(t.Context(), "passing", metav1.DeleteOptions{}))
			version = p.ResourceVersion
		}
		time.Sleep(5 * time.Minute)
		if !slices.Equal(names(all), []string{"kept"}) {
			t.Errorf("after the restore the cache has %v", names(all))
		}
	})
}

func TestTheConfigurationComesFromTheFileOrFromThePod(t *testing.T) {
	admin := fakekube.Serve(t, fakekube.New().Config())
	file := t.TempDir() + "/kubeconfig"
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: admin.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "admin"}},
		CurrentContext: "a",
	}, file))
	config, err := client.Config(file)
	must(t, err)
	c, err := client.New(config)
	must(t, err)
	if _, err := c.Namespaces().Get(t.Context(), corev1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}

	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for path, says := range map[string]string{"": "--kubeconfig", file + ".missing": "--kubeconfig " + file + ".missing"} {
		if _, err := client.Config(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q in it", path, err, says)
		}
	}
}
