package peering

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// Keys: of two gateways there, of one here, and of an invite.
const (
	keyA    v1alpha1.PublicKey = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
	keyB    v1alpha1.PublicKey = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
	keyHere v1alpha1.PublicKey = "XcgfvMDKZ8buZIUrAIcmJHgDDB7mGcu7LXzJIdBYdGU="
	keyNext v1alpha1.PublicKey = "cJbk3Bv2MROnwz+2eiSz0Fx9FFaTb4WSZEEQzUVMrxQ="
	invite  v1alpha1.PublicKey = "ZfGkTVXO41L2FNDKEIMJ1F1lC5tjj7BT8ZnK8Wl7gHQ="
)

// peered is a Peering with cluster b, as it is before any announcement.
func peered() *v1alpha1.Peering {
	p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	p.Spec = v1alpha1.PeeringSpec{
		ClusterID:        "b",
		Prefixes:         v1alpha1.RemotePrefixes{{CIDR: "10.1.0.0/16", SeenAs: "10.71.0.0/16"}},
		ExternalPrefixes: v1alpha1.RemotePrefixes{{CIDR: "10.70.0.0/16"}},
		AcceptPrefixes:   []v1alpha1.AcceptedCIDR{"10.2.0.0/15", "fd00:20::/32"},
		Peers: []v1alpha1.Peer{
			{Name: "a-0", PublicKey: keyA, Endpoint: "gw.example:51840", PresharedKeySecretName: "psk", PersistentKeepalive: &metav1.Duration{Duration: 25 * time.Second}},
			{Name: "invited", PublicKey: invite, NotAfter: at(noon)},
		},
	}
	p.Status.Gateways = []v1alpha1.GatewayStatus{{Name: "b-0", PublicKey: keyHere}, {Name: "b-1"}}
	return p
}

func TestT7_OnlyListedRangesMayKeepTheirAddresses(t *testing.T) {
	p := peered()
	p.Spec.Prefixes = append(p.Spec.Prefixes, v1alpha1.RemotePrefix{CIDR: "172.16.0.0/12"})
	for cidr, want := range map[v1alpha1.CIDR]bool{
		"10.1.0.0/16": true, "172.16.0.0/12": true, "172.20.0.0/16": true, "10.70.128.0/17": true,
		"10.1.0.0/17":   false, // a part of one that is mapped to another
		"172.16.0.0/11": false, "10.2.0.0/16": false, "fd00:20::/48": false, "": false, "172.20.0.1/16": false,
	} {
		if got := Listed(p, cidr); got != want {
			t.Errorf("%s: %v", cidr, got)
		}
	}
}

func at(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// told is an announcement that peered takes.
func told(changes ...func(*v1alpha1.Announcement)) v1alpha1.Announcement {
	a := v1alpha1.Announcement{
		Revision: 1, HeardAt: &metav1.MicroTime{Time: noon}, ClusterID: "b",
		Prefixes: []v1alpha1.CIDR{"10.1.0.0/16", "10.3.0.0/16"}, ExternalPrefixes: []v1alpha1.CIDR{"10.70.0.0/17"},
		Gateways: []v1alpha1.AnnouncedGateway{
			{Name: "a-0", PublicKeys: []v1alpha1.PublicKey{keyNext, keyA}, Endpoints: []v1alpha1.Endpoint{"192.0.2.1:51840", "gw.example:51840"}},
			{Name: "a-1", PublicKeys: []v1alpha1.PublicKey{keyB}},
		},
	}
	for _, change := range changes {
		change(&a)
	}
	a.Superseded = Superseded(peered(), &a)
	return a
}

func names(r Remote) (all []string) {
	for _, g := range r.Gateways {
		all = append(all, fmt.Sprintf("%s %s%s%s %v %v", g.Name, g.PublicKeys, g.Endpoints, g.PresharedKeySecretName, g.PersistentKeepalive != nil, g.NotAfter != nil))
	}
	return all
}

func TestBeforeAnAnnouncementTheSpecIsInForce(t *testing.T) {
	r := RemoteOf(peered(), noon.Add(-time.Second))
	want := Remote{ClusterID: "b", Prefixes: peered().Spec.Prefixes, ExternalPrefixes: peered().Spec.ExternalPrefixes}
	got := r
	got.Gateways = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := fmt.Sprintf("%q", names(r)), fmt.Sprintf("%q", []string{
		fmt.Sprintf("a-0 [%s][gw.example:51840]psk true false", keyA), fmt.Sprintf("invited [%s][] false true", invite)}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnInvitedPeerEndsWhenItsTimeComes(t *testing.T) {
	for now, want := range map[time.Time]int{noon.Add(-1): 2, noon: 1, noon.Add(time.Hour): 1} {
		if r := RemoteOf(peered(), now); len(r.Gateways) != want || r.Gateways[0].Name != "a-0" {
			t.Errorf("at %v: %v", now, names(r))
		}
	}
}

func TestAnAnnouncementTakesThePlaceOfWhatWasWritten(t *testing.T) {
	p := peered()
	p.Status.Announcement = new(told())
	r := RemoteOf(p, noon.Add(-time.Second)) // the invite would still be open
	if !r.Announced || r.ClusterID != "b" {
		t.Errorf("%+v", r)
	}
	if want := (v1alpha1.RemotePrefixes{{CIDR: "10.1.0.0/16", SeenAs: "10.71.0.0/16"}, {CIDR: "10.3.0.0/16"}}); !reflect.DeepEqual(r.Prefixes, want) {
		t.Errorf("prefixes %v, want %v", r.Prefixes, want)
	}
	if want := (v1alpha1.RemotePrefixes{{CIDR: "10.70.0.0/17"}}); !reflect.DeepEqual(r.ExternalPrefixes, want) {
		t.Errorf("external prefixes %v, want %v", r.ExternalPrefixes, want)
	}
	want := []string{
		fmt.Sprintf("a-0 [%s %s][gw.example:51840 192.0.2.1:51840]psk true false", keyNext, keyA),
		fmt.Sprintf("a-1 [%s][] true false", keyB),
	}
	if got := names(r); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// For instance after the remote cluster was reinstalled: it cannot announce itself before
// it is trusted.
func TestAKeyThatIsWrittenAfterAnAnnouncementIsTrustedBesideIt(t *testing.T) {
	p := peered()
	p.Status.Announcement = new(told(func(a *v1alpha1.Announcement) { a.Gateways = a.Gateways[1:] }))
	if got, want := names(RemoteOf(p, noon)), []string{fmt.Sprintf("a-1 [%s][] true false", keyB)}; !slices.Equal(got, want) {
		t.Errorf("what it does not name is trusted: got %q, want %q", got, want)
	}
	p.Spec.Peers[0].PublicKey = keyNext
	p.Spec.Peers[1] = v1alpha1.Peer{Name: "a-1", PublicKey: invite + "x"}
	want := []string{
		fmt.Sprintf("a-1 [%sx %s][] false false", invite, keyB),
		fmt.Sprintf("a-0 [%s][gw.example:51840]psk true false", keyNext),
	}
	if got := names(RemoteOf(p, noon)); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	p.Status.Announcement.Superseded = Superseded(p, p.Status.Announcement) // it was repeated
	if got, want := names(RemoteOf(p, noon)), []string{fmt.Sprintf("a-1 [%s][] false false", keyB)}; !slices.Equal(got, want) {
		t.Errorf("after it was repeated: got %q, want %q", got, want)
	}
}

func TestAGrantThatIsTakenBackEndsTheAnnouncement(t *testing.T) {
	p := peered()
	p.Status.Announcement = new(told())
	p.Spec.AcceptPrefixes = nil
	if r := RemoteOf(p, noon); r.Announced || len(r.Prefixes) != 1 || r.Prefixes[0].CIDR != "10.1.0.0/16" {
		t.Errorf("%+v", r)
	}
}

// For any announcement, the effective CIDRs are within the grants, and the peers are either
// the announced ones or those of the spec, never both.
func TestT7_NothingIsInForceThatIsNotGranted(t *testing.T) {
	announced := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := peered()
		if r.IntN(4) > 0 {
			p.Status.Announcement = new(told(randomly(r)...))
		}
		remote := RemoteOf(p, noon)
		if remote.Announced {
			announced++
		}
		grants := append(slices.Clone(p.Spec.AcceptPrefixes), "10.1.0.0/16")
		for _, one := range remote.Prefixes {
			if !slices.ContainsFunc(grants, func(g v1alpha1.AcceptedCIDR) bool { return contains(v1alpha1.CIDR(g), one.CIDR) }) {
				t.Fatalf("seed %d: %v is in force", seed, one)
			}
		}
		for _, g := range remote.Gateways {
			if len(g.PublicKeys) == 0 || slices.Contains(g.PublicKeys, keyHere) || remote.Announced && slices.Contains(g.PublicKeys, invite) {
				t.Fatalf("seed %d: gateway %+v", seed, g)
			}
		}
		if remote.ClusterID != "b" {
			t.Fatalf("seed %d: cluster %q", seed, remote.ClusterID)
		}
		if !remote.Announced && !reflect.DeepEqual(remote.Prefixes, p.Spec.Prefixes) {
			t.Fatalf("seed %d: neither announced nor written: %+v", seed, remote)
		}
	}
	if announced < 300 || announced > 2700 {
		t.Errorf("%d of 3000 were taken: the test shows too little", announced)
	}
}

// randomly changes an announcement in some way, half the time to what is refused.
func randomly(r *rand.Rand) []func(*v1alpha1.Announcement) {
	all := []func(*v1alpha1.Announcement){
		func(a *v1alpha1.Announcement) { a.Prefixes = append(a.Prefixes, "10.2.7.0/24") },
		func(a *v1alpha1.Announcement) { a.Prefixes = a.Prefixes[:1] },
		func(a *v1alpha1.Announcement) { a.Gateways = a.Gateways[:1] },
		func(a *v1alpha1.Announcement) { a.Gateways[0].Endpoints = nil },
	}
	when := func(a *v1alpha1.Announcement) {
		a.HeardAt = &metav1.MicroTime{Time: noon.Add(time.Duration(r.IntN(9)))}
	}
	if r.IntN(2) == 0 {
		return []func(*v1alpha1.Announcement){when, all[r.IntN(len(all))]}
	}
	return []func(*v1alpha1.Announcement){when, refused[r.IntN(len(refused))].change}
}
