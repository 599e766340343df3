package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/fakekube"
)

// TestTwoClustersAreJoined starts two clusters with the same ranges, and joins them in
// all ways that there are, in virtual time.
func TestTwoClustersAreJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, joinTwoClusters)
}

// joinTwoClusters runs in a bubble.
//
//strait:virtualtime
func joinTwoClusters(t *testing.T) {
	first, other := fakekube.New(), fakekube.New()
	other.DeleteCRDs()
	part(t, "before Strait is installed", func() {
		_, err := ReadReport(t.Context(), Cluster{Name: "context b", Client: other.Client(t)}, nil)
		says(t, err, "context b: Strait's CRDs are not installed", "install Strait in that cluster first")
	})
	a := newSite(t, first, "a", "10.0.0.0/24", "192.0.2.21")
	b := newSite(t, other, "b", "10.0.0.0/24", "192.0.2.31")
	part(t, "before the controller runs", func() {
		const missing = "context a: the controller has not reported the status of ClusterNetwork default yet; check that strait controller runs"
		_, err := Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()})
		says(t, err, "not after 1m0s: "+missing)
		_, err = Join(t.Context(), a.user, b.user, JoinOptions{Waiting: Waiting{DryRun: true}})
		says(t, err, missing)
		_, err = ReadReport(t.Context(), a.user, nil)
		says(t, err, missing)
	})

	part(t, "by peer, while the controllers start", func() {
		time.AfterFunc(10*time.Second, func() {
			a.control(t)
			b.control(t)
			runFakes(t, a, b)
		})
		defer a.clear(t)
		defer b.clear(t)
		joined, err := Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()})
		must(t, err)
		if joined.Local.Name != "b" || !joined.Local.Ready || joined.Remote.Name != "a" || !joined.Remote.Ready {
			t.Errorf("joined %+v", joined)
		}
		inA, inB := a.get(t, "b"), b.get(t, "a")
		if inA.Spec.Gateway.Service.Type != corev1.ServiceTypeClusterIP || inB.Spec.Gateway.Service.Type != corev1.ServiceTypeNodePort {
			t.Errorf("services are %s here and %s there", inA.Spec.Gateway.Service.Type, inB.Spec.Gateway.Service.Type)
		}
		if peers := inA.Spec.Peers; len(peers) != 2 || peers[0].Name != "a-0" || !strings.HasPrefix(string(peers[0].Endpoint), "192.0.2.31:") || peers[0].PublicKey != b.key(inB, "a-0") {
			t.Errorf("peers here are %+v", peers)
		}
		if peers := inB.Spec.Peers; len(peers) != 2 || peers[0].Name != "b-0" || peers[0].Endpoint != "" || peers[0].PublicKey != a.key(inA, "b-0") {
			t.Errorf("peers there are %+v", peers)
		}
		a.writes.Store(0)
		b.writes.Store(0)
		_, err = Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()})
		must(t, err)
		if a.writes.Load()+b.writes.Load() != 0 {
			t.Errorf("joining clusters that are joined wrote %d times here, %d there", a.writes.Load(), b.writes.Load())
		}
		_, err = Join(t.Context(), a.user, b.user, JoinOptions{Name: "other", Waiting: soon()})
		says(t, err, "already joined to cluster b by Peering b; remove --name")

		part(t, "status", func() {
			r, err := Await(t.Context(), a.user, nil, soon())
			must(t, err)
			for _, s := range r.Peerings[0].Stages {
				if s.State != Reached && s.Name != "handshake" { // of which the players know nothing
					t.Errorf("stage %s is %s: %s", s.Name, s.State, s.Message)
				}
			}
			if got, want := fmt.Sprint(r.Peerings[0].Ranges), "[{10.0.0.0/24 10.65.0.0/24 pods} {10.70.0.0/16 10.64.0.0/16 external}]"; got != want {
				t.Errorf("ranges %s, want %s", got, want)
			}
		})
		part(t, "resolve", func() {
			r, err := Resolve(t.Context(), a.user, netip.MustParseAddr("10.65.0.9"))
			must(t, err)
			if len(r.Meanings) != 1 || r.Meanings[0].To != "10.0.0.9" || r.Meanings[0].Of != "b" {
				t.Errorf("10.65.0.9 means %+v", r.Meanings)
			}
		})
		part(t, "cidr plan of the very cluster", func() {
			plan, err := PlanOf(t.Context(), a.user, &b.user, nil, true)
			must(t, err)
			if plan.Peering != "b" || len(plan.Views) != 2 || plan.Views[0].SeenAs != "10.65.0.0/24" || plan.Views[1].SeenAs != "10.64.0.0/16" {
				t.Errorf("the plan is %+v", plan)
			}
			list, err := a.admin.NodeAttachments().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			name := list.Items[0].Name
			_, err = a.admin.NodeAttachments().ApplyStatus(t.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
				Status: v1alpha1.NodeAttachmentStatus{RouteConflicts: []v1alpha1.RouteConflict{
					{CIDR: "10.65.0.0/24", Destination: "route to 10.0.0.0/8 dev wg0 table 254", Refused: true},
					{CIDR: "10.64.0.0/16", Destination: "route to 10.64.0.0/24 dev eth1 table 254"},
				}}}, "a test")
			must(t, err)
			plan, err = PlanOf(t.Context(), a.user, &b.user, nil, false)
			must(t, err)
			if got, want := fmt.Sprint(plan.Views[0].Refused, plan.Views[1].Refused), "["+name+" has route to 10.0.0.0/8 dev wg0 table 254] []"; got != want {
				t.Errorf("refused by %s, want %s", got, want)
			}
			_, err = a.admin.NodeAttachments().ApplyStatus(t.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}, "a test")
			must(t, err)
		})
		part(t, "made anew on one side", func() {
			b.clear(t)
			_, err := Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()}) // another cluster could use its ID
			says(t, err, "context a: Peering b is with other gateways of cluster b", "--yes")
			_, err = Join(t.Context(), a.user, b.user, JoinOptions{Yes: true, Waiting: soon()})
			must(t, err)
		})
	})

	part(t, "by peer, interrupted and run again", func() {
		defer a.clear(t)
		defer b.clear(t)
		o := JoinOptions{Name: "prod-b", RemoteName: "prod-a", Replicas: 2, ServiceType: corev1.ServiceTypeNodePort}
		o.Waiting = Waiting{For: time.Millisecond, Every: time.Millisecond}
		_, err := Join(t.Context(), a.user, b.user, o)
		var late *TimeoutError
		if !errors.As(err, &late) {
			t.Fatalf("with no time it says %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Join(ended, a.user, b.user, o); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted, it says %v", err)
		}
		joined, err := Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()})
		must(t, err)
		if joined.Local.Name != "prod-b" || joined.Remote.Name != "prod-a" || len(a.get(t, "prod-b").Spec.Peers) != 2 {
			t.Errorf("joined %+v", joined)
		}
		eventually(t, "each gateway tells of its links to both", func() bool {
			reports, err := a.user.Reports(t.Context())
			return err == nil && len(linksOf(a.get(t, "prod-b"), reports)) == 4
		})
	})

	part(t, "by peer, without a side that accepts connections", func() {
		defer a.clear(t)
		defer b.clear(t)
		_, err := Join(t.Context(), a.user, b.user, JoinOptions{ServiceType: corev1.ServiceTypeClusterIP, Waiting: Waiting{For: 5 * time.Second, Every: 20 * time.Millisecond}})
		says(t, err, "neither cluster accepts connections", "--service-type NodePort")
	})

	part(t, "by objects", func() {
		defer a.clear(t)
		defer b.clear(t)
		for s, name := range map[*site]string{a: "b", b: "a"} {
			p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringSpec{
				Gateway: v1alpha1.GatewaySpec{Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}}, LocalPods: true}}
			_, err := s.admin.Peerings().Apply(t.Context(), p, "git")
			must(t, err)
		}
		forB, err := ForRemote(t.Context(), a.user, "", soon())
		must(t, err)
		forA, err := ForRemote(t.Context(), b.user, "a", soon())
		must(t, err)
		forA.Spec.Gateway.Service.Type, forB.Spec.Gateway.Service.Type = corev1.ServiceTypeNodePort, corev1.ServiceTypeNodePort
		_, err = a.admin.Peerings().Apply(t.Context(), forA, "git")
		must(t, err)
		_, err = b.admin.Peerings().Apply(t.Context(), forB, "git")
		must(t, err)
		_, err = Await(t.Context(), a.user, []string{"b"}, soon())
		must(t, err)
		_, err = ForRemote(t.Context(), a.user, "c", soon())
		says(t, err, "Peering c does not exist; existing Peerings: b")
	})

	part(t, "by invite", func() {
		defer a.clear(t)
		defer b.clear(t)
		inviting := InviteOptions{Name: "b", Expires: time.Hour, GatewayNamespace: gatewayNamespace, Random: rand.Reader, Now: time.Now, Waiting: soon(), Prefixes: []v1alpha1.CIDR{"10.0.0.0/24"}}
		first, err := NewInvite(t.Context(), a.user, inviting)
		must(t, err)
		is := a.get(t, "b")
		if is.Spec.ClusterID != "" || len(is.Spec.Peers) != 1 || is.Spec.Peers[0].Name != "invite" || is.Spec.Peers[0].NotAfter == nil ||
			is.Spec.Gateway.Service.Type != corev1.ServiceTypeNodePort || !is.Spec.LocalPods {
			t.Errorf("the inviting Peering is %+v", is.Spec)
		}
		invite, err := NewInvite(t.Context(), a.user, inviting) // before it is accepted
		must(t, err)
		if got := fmt.Sprint(a.get(t, "b").Spec.Prefixes); got != "[{10.0.0.0/24 }]" {
			t.Errorf("the inviting Peering lists %s", got)
		}
		if first.PrivateKey == invite.PrivateKey {
			t.Error("two invites have one key")
		}
		text, err := invite.Token()
		must(t, err)
		if invite, err = ParseToken(text, time.Now()); err != nil {
			t.Fatal(err)
		}
		_, err = Accept(t.Context(), a.user, invite, AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: soon()})
		says(t, err, "the invite was created by this cluster, a")
		_, err = Accept(t.Context(), b.user, invite, AcceptOptions{GatewayNamespace: "nowhere", Waiting: soon()})
		says(t, err, "the namespace nowhere of the gateways does not exist", "--gateway-namespace")

		_, err = Accept(t.Context(), b.user, invite, AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: Waiting{For: time.Millisecond}})
		var late *TimeoutError
		if !errors.As(err, &late) {
			t.Fatalf("with no time it says %v", err)
		}
		if b.get(t, "a").Spec.InviteUntil == nil {
			t.Error("the invite is taken away before anything crosses")
		}
		secret, err := b.admin.Secrets(gatewayNamespace).Get(t.Context(), "a-invite", metav1.GetOptions{})
		must(t, err)
		if string(secret.Data["invite.key"]) != string(invite.PrivateKey)+"\n" || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != b.get(t, "a").UID {
			t.Errorf("the Secret of the invite belongs to %+v, or does not hold its key", secret.OwnerReferences)
		}
		a.holdsNot(t, string(invite.PrivateKey))
		report, err := Accept(t.Context(), b.user, invite, AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: soon()})
		must(t, err)
		inB := b.get(t, "a")
		if report.Name != "a" || !report.Ready || inB.Spec.ClusterID != "a" || inB.Spec.InviteUntil != nil || inB.Spec.Gateway.Service.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("accepted as %+v: %+v", report, inB.Spec)
		}
		if _, err := b.admin.Secrets(gatewayNamespace).Get(t.Context(), "a-invite", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret of the invite: %v", err)
		}
		_, err = Await(t.Context(), a.user, nil, soon())
		must(t, err)
		_, err = Await(t.Context(), b.user, nil, soon()) // without the temporary key
		must(t, err)

		b.writes.Store(0)
		_, err = Accept(t.Context(), b.user, invite, AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: soon()})
		must(t, err)
		if b.writes.Load() != 0 {
			t.Errorf("an invite that was accepted already made %d writes", b.writes.Load())
		}
		_, err = NewInvite(t.Context(), a.user, inviting)
		says(t, err, "Peering b is already in use", "--replace")
		inviting.Replace = true
		again, err := NewInvite(t.Context(), a.user, inviting)
		must(t, err)
		if again.Gateways[0].PublicKey == invite.Gateways[0].PublicKey || a.get(t, "b").UID == is.UID {
			t.Error("what was to be replaced is there still")
		}
		_, err = Accept(t.Context(), b.user, again, AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: soon()})
		says(t, err, "context b: Peering a is with other gateways of cluster a", "--yes")
		if now := b.get(t, "a"); now.Generation != inB.Generation {
			t.Errorf("a refused invite makes the Peering %+v", now.Spec)
		}
		_, err = Accept(t.Context(), b.user, again, AcceptOptions{Yes: true, GatewayNamespace: gatewayNamespace, Waiting: soon()})
		must(t, err)
	})

	part(t, "by an invite that names addresses of others", func() {
		defer a.clear(t)
		defer b.clear(t)
		c := AcceptOptions{GatewayNamespace: gatewayNamespace, Waiting: Waiting{For: time.Millisecond}}
		invite, err := NewInvite(t.Context(), a.user, InviteOptions{Name: "b", Expires: time.Hour, GatewayNamespace: gatewayNamespace, Random: rand.Reader, Now: time.Now, Waiting: soon()})
		must(t, err)
		invite.Prefixes, invite.ExternalPrefixes = []v1alpha1.CIDR{"8.8.8.0/24", "172.20.0.0/16"}, []v1alpha1.CIDR{"17.0.0.0/8"}
		_, err = Accept(t.Context(), b.user, invite, c)
		says(t, err, "context b: cluster a has CIDRs that are not private: 8.8.8.0/24, 17.0.0.0/8;", "--yes")
		if all, err := b.user.Peerings(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("a refused invite leaves %v, %v", all, err)
		}
		for _, keep := range []bool{false, true} {
			c.Yes, c.KeepAddresses = true, keep
			_, err = Accept(t.Context(), b.user, invite, c)
			says(t, err, "not after 1ms")
			want, seen := "[] []", "[] []" // announced later, and mapped
			if keep {
				want, seen = "[{8.8.8.0/24 } {172.20.0.0/16 }] [{17.0.0.0/8 }]", "[{8.8.8.0/24 8.8.8.0/24} {172.20.0.0/16 172.20.0.0/16}] [{17.0.0.0/8 17.0.0.0/8}]"
			}
			eventually(t, "the Peering is processed", func() bool { p := b.get(t, "a"); return p.Status.ObservedGeneration == p.Generation })
			is := b.get(t, "a")
			if got := fmt.Sprint(is.Spec.Prefixes, is.Spec.ExternalPrefixes); got != want {
				t.Errorf("keep addresses %v: the Peering lists %s, want %s", keep, got, want)
			}
			if got := fmt.Sprint(is.Status.Prefixes, is.Status.ExternalPrefixes); got != seen {
				t.Errorf("keep addresses %v: its CIDRs are %s, want %s", keep, got, seen)
			}
			if got, want := fmt.Sprint(is.Spec.AcceptPrefixes), fmt.Sprint(append(slices.Clone(private), "8.8.8.0/24", "17.0.0.0/8")); got != want {
				t.Errorf("keep addresses %v: the other cluster may announce %s, want %s", keep, got, want)
			}
			b.clear(t)
		}
	})

	part(t, "by peer, with distinct CIDRs", func() {
		for _, keep := range []bool{false, true} {
			spec := new(v1alpha1.PeeringSpec)
			grant(spec, &v1alpha1.ClusterNetwork{Spec: v1alpha1.ClusterNetworkSpec{ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}}, Status: v1alpha1.ClusterNetworkStatus{PodCIDRs: []v1alpha1.CIDR{"10.1.0.0/16"}}}, keep)
			want := "[] []"
			if keep {
				want = "[{10.1.0.0/16 }] [{10.70.0.0/16 }]"
			}
			if got := fmt.Sprint(spec.Prefixes, spec.ExternalPrefixes); got != want {
				t.Errorf("keep addresses %v: the Peering lists %s, want %s", keep, got, want)
			}
		}
	})

	part(t, "by an invite for one cluster", func() {
		defer a.clear(t)
		inviting := InviteOptions{Name: "c", ClusterID: "a", Expires: time.Hour, GatewayNamespace: gatewayNamespace, Random: rand.Reader, Now: time.Now, Waiting: soon()}
		_, err := NewInvite(t.Context(), a.user, inviting)
		says(t, err, "cluster ID a is this cluster's own", "--cluster-id")
		inviting.ClusterID = "c"
		_, err = NewInvite(t.Context(), a.user, inviting)
		must(t, err)
		if id := a.get(t, "c").Spec.ClusterID; id != "c" {
			t.Errorf("the inviting Peering is with cluster %q", id)
		}
		inviting.ClusterID = "d"
		_, err = NewInvite(t.Context(), a.user, inviting)
		says(t, err, "Peering c is with cluster c, not with d", "kubectl delete peering c")
		inviting.Name, inviting.ClusterID = "d", "c"
		_, err = NewInvite(t.Context(), a.user, inviting)
		says(t, err, "cluster ID c belongs to Peering c", "--cluster-id")
	})

	part(t, "keys are rotated and the clusters separated, after dry runs", func() {
		defer a.clear(t)
		defer b.clear(t)
		var changes []string
		dry := func(s *site) Cluster {
			c := s.user
			c.Client = c.Client.DryRun()
			c.Changed = func(change Change) {
				changes = append(changes, fmt.Sprintf("%s: %s %s", change.Cluster, change.Peering.Name, change.Action))
			}
			return c
		}
		dryA, dryB, without := dry(a), dry(b), Waiting{DryRun: true}
		wrote := func(err error, want ...string) {
			t.Helper()
			if !errors.Is(err, ErrDryRun) || fmt.Sprint(changes) != fmt.Sprint(want) {
				t.Errorf("ends with %v and changes %q, want %q", err, changes, want)
			}
			changes = nil
		}
		_, err := Join(t.Context(), dryA, dryB, JoinOptions{Waiting: without})
		wrote(err, "context a: b created", "context b: a created")
		_, err = NewInvite(t.Context(), dryA, InviteOptions{Name: "c", Random: rand.Reader, Now: time.Now, Waiting: without})
		wrote(err, "context a: c created")
		for _, s := range []*site{a, b} {
			if all, err := s.user.Peerings(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("a dry run stored %v, %v", all, err)
			}
		}

		_, err = Join(t.Context(), a.user, b.user, JoinOptions{Waiting: soon()})
		must(t, err)
		_, err = RotateKeys(t.Context(), dryA, "b", without)
		wrote(err, "context a: b updated")
		rotated, err := RotateKeys(t.Context(), a.user, "b", soon())
		must(t, err)
		if rotated.KeyGeneration != 2 || len(rotated.Gateways) != 2 || rotated.Gateways[0].KeyGeneration != 2 {
			t.Errorf("rotated %+v", rotated)
		}
		_, err = Join(t.Context(), a.user, b.user, JoinOptions{Replicas: 2, Waiting: soon()})
		must(t, err)
		if got := a.get(t, "b").Spec.Gateway.KeyGeneration; got != 2 {
			t.Errorf("joining again makes the generation %d", got)
		}
		_, err = RotateKeys(t.Context(), a.user, "other", soon())
		says(t, err, "context a: Peering other does not exist; existing Peerings: b")

		separate := UnpeerOptions{Name: "b", GatewayNamespace: gatewayNamespace, Waiting: without}
		wrote(Unpeer(t.Context(), dryA, &dryB, separate), "context a: b deleted", "context b: a deleted")
		separate.Waiting = soon()
		says(t, Unpeer(t.Context(), a.user, &a.user, separate), "are the same cluster")
		b.lends(t, "a", &v1alpha1.PeeringLend{Namespaces: []string{"work"}})
		says(t, Unpeer(t.Context(), a.user, &b.user, separate), "context b: pods of the cluster of Peering a may run in this one; first run: strait unlend --all --from a")
		b.lends(t, "a", nil)
		must(t, Unpeer(t.Context(), a.user, &b.user, separate))
		for _, s := range []*site{a, b} {
			if all, err := s.user.Peerings(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("still there: %v, %v", all, err)
			}
		}
		says(t, Unpeer(t.Context(), a.user, &b.user, separate), "Peering b does not exist; existing Peerings: none")
	})

	part(t, "refused", func() {
		defer a.clear(t)
		defer b.clear(t)
		_, err := Join(t.Context(), a.user, Cluster{Name: "context c", Client: a.user.Client}, JoinOptions{Waiting: soon()})
		says(t, err, "context a and context c are the same cluster, a")
		_, err = PlanOf(t.Context(), a.user, &a.user, nil, false)
		says(t, err, "are the same cluster")
		_, err = NewInvite(t.Context(), a.user, InviteOptions{Name: "No"})
		says(t, err, "is not a valid name of a Peering")
		mayNothing, err := client.New(a.kube.ServiceAccount(t, "default", "nobody"))
		must(t, err)
		_, err = ReadReport(t.Context(), Cluster{Name: "context n", Client: mayNothing}, nil)
		says(t, err, "context n: read ClusterNetworks:", "forbidden", "use a context with the necessary permissions")
		nowhere, err := client.New(&rest.Config{Host: "https://127.0.0.1:1"})
		must(t, err)
		_, err = ReadReport(t.Context(), Cluster{Name: "context x", Client: nowhere}, nil)
		says(t, err, "context x: the API server cannot be reached", "check that the context is the right one")
	})

	part(t, "cidr plan", func() {
		plan, err := PlanOf(t.Context(), a.user, nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("10.96.0.0/16")}, true)
		must(t, err)
		if got, want := fmt.Sprint(plan.Views), "[{10.0.0.0/16 10.64.0.0/16 10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/24 []} "+
			"{10.9.0.0/16 10.9.0.0/16 10.9.0.0/16 overlaps no prefix in use in this cluster []} "+
			"{10.96.0.0/16 10.65.0.0/16 10.96.0.0/16 overlaps this cluster's service CIDR 10.96.0.0/16 []}]"; got != want {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
		plan, err = PlanOf(t.Context(), a.user, nil, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("8.8.8.0/24")}, false)
		must(t, err)
		if len(plan.Views) != 2 || plan.Views[0].SeenAs != "10.64.0.0/16" || plan.Views[1].SeenAs != "10.65.0.0/24" {
			t.Errorf("without keeping addresses, the plan is %+v", plan.Views)
		}
	})
}

// part is a subtest, which a synctest bubble cannot have.
func part(t *testing.T, name string, test func()) {
	t.Helper()
	t.Log(name)
	test()
}

// says checks that an error has all these words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("it says %v, and should say %q", err, w)
		}
	}
}
