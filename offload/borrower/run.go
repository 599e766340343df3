package borrower

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/budget"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/lease"
	"strait.dev/strait/offload/loop"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/streams"
	"strait.dev/strait/offload/translate"
)

// Options configure a borrower. All but Stats and Dial are required.
type Options struct {
	API       *rest.Config // of the API server, as the service account of the borrower
	Peering   string       // name of the Peering from whose cluster it borrows
	Namespace string       // of its pod, its Lease and its Secret
	Addresses []string     // of its pod, which are those of the node
	Listener  net.Listener // the kubelet port of the node; Run closes it
	Log       *slog.Logger
	Stats     *Stats // what it measures; nil: nothing
	// Dial connects to the lender; nil: over TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	resend    = 5 * time.Second  // a template that the lender still misses
	consentOf = time.Minute      // how long a namespace's consent is remembered
	missingOf = 10 * time.Second // how long that it is missing is remembered
	writers   = 8                // concurrent writes

	decideEvery = 10 * time.Second
)

// Name returns the name of a Peering's borrower: of its Lease and its Secret.
func Name(peering string) string { return "strait-borrower-" + peering }

type borrower struct {
	Options
	log      *slog.Logger
	own      *client.Client // as the service account
	asNode   *client.Client
	lease    *lease.Lease
	version  string // of the API server
	observes bool   // see View
	node     translate.Node
	peerings *client.Cache[*v1alpha1.Peering]
	pods     *client.Cache[*corev1.Pod]
	link     *link
	callers  *callers
	streams  *streams.Proxy
	serving  tls.Certificate // of the kubelet port
	loop     *loop.Loop
	caches   sync.WaitGroup

	// Of the loop.
	sequence   int64
	sentDigest string // of the list that the lender with the epoch sentEpoch has accepted
	sentEpoch  string
	sent       map[string]time.Time // templates and contents, by hash
	shelf      *Shelf
	templates  map[types.UID]described
	spaces     map[string]*space  // by namespace
	carried    map[string]carried // Services, by key
	consents   map[string]consent // by namespace
	budget     budget.Writes
	offers     map[types.UID]bool // pods that were offered, of which the cache may not know that yet
}

type described struct {
	*Template
	version string
}

type consent struct {
	is    Consent
	until time.Time
}

// Run borrows until ctx ends. It returns an error if a later run takes its place.
func Run(ctx context.Context, o Options) error {
	if o.Stats == nil {
		o.Stats = new(Stats)
	}
	defer o.Listener.Close() // even if it does not serve
	own, err := client.New(o.API)
	if err != nil {
		return err
	}
	b := &borrower{
		Options: o, log: o.Log, own: own,
		lease:    &lease.Lease{Leases: own.Leases(o.Namespace), Name: Name(o.Peering), Holder: rand.Text()},
		peerings: own.Peerings().Cache(o.Peering), loop: loop.New(),
		sent: make(map[string]time.Time), consents: make(map[string]consent),
		shelf: NewShelf(), templates: make(map[types.UID]described), spaces: make(map[string]*space), carried: make(map[string]carried), offers: make(map[types.UID]bool),
	}
	if err := b.peerings.Notify(b.loop.Wake); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	background.Go(func() { b.peerings.RunWithContext(ctx) })
	if loop.Begin(ctx, patience, b.prepare, func(err error) { b.log.Warn("cannot start to borrow; retrying", "error", err) }) {
		background.Go(func() { b.link.run(ctx) })
		background.Go(func() { b.callers.authorities.RunWithContext(ctx) })
		server := b.kubelet()
		background.Go(func() {
			if err := server.ServeTLS(streams.Limit(o.Listener), "", ""); !errors.Is(err, http.ErrServerClosed) {
				stop(err)
			}
		})
		background.Go(func() {
			select {
			case <-ctx.Done():
			case <-b.link.fenced: // a pod that a former run offers from now on is not known to the lender
				b.pods.RunWithContext(ctx)
			}
		})
		background.Go(func() { b.beat(ctx, stop) })
		b.loop.Run(ctx, b.decide)
		server.Close()
	}
	stop(nil)
	background.Wait()
	b.caches.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// prepare takes the lease, and prepares the identity of the node. It fails while this cluster does
// not borrow.
func (b *borrower) prepare(ctx context.Context) error {
	certificate, err := identity.Load(ctx, b.own.Secrets(b.Namespace), Name(b.Peering))
	if err != nil {
		return err
	}
	p, ok := b.peerings.Get(b.Peering)
	if !ok || p.Spec.Borrow == nil {
		return fmt.Errorf("this cluster borrows nothing: spec.borrow of Peering %s is empty, or not read yet", b.Peering)
	}
	b.node = translate.Node{Name: NodeName(b.Peering, p.Spec.Borrow.NodeName), Addresses: b.Addresses}
	config := rest.CopyConfig(b.API)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + b.node.Name, Groups: []string{"system:nodes"}}
	if b.asNode, err = client.New(config); err != nil {
		return err
	}
	if is, err := b.asNode.Nodes().Get(ctx, b.node.Name, metav1.GetOptions{}); err == nil && is.Labels[translate.PeeringLabel] != b.Peering {
		return fmt.Errorf("node %s exists, and is not the virtual node of Peering %s; remove spec.borrow of the Peering, and run strait borrow with another --node-name", b.node.Name, b.Peering)
	} else if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read node %s: %w", b.node.Name, err)
	}
	b.pods = b.asNode.Pods("").CacheOfNode(b.node.Name)
	if err := b.pods.Notify(b.loop.Wake); err != nil {
		return err
	}
	if b.callers, err = newCallers(b.own, config, b.node.Name); err != nil {
		return err
	}
	if b.serving, err = identity.Generate(b.node.Name); err != nil {
		return err
	}
	b.link = newLink(certificate, b.lender, b.Dial, b.log, b.loop.Wake)
	b.Stats.begin(b.link)
	b.streams = streams.New(streams.Options{Next: "the other cluster", Transport: b.link.pods, Wait: streamPatience, Answer: answer, Log: b.log})
	is, _, err := b.own.Version(ctx)
	if err != nil {
		return err
	}
	b.version, b.observes = is.GitVersion, observes(&is)
	if b.link.term, err = b.lease.Take(ctx, true); err == nil {
		b.log.Info("the borrower runs", "node", b.node.Name, "fingerprint", protocol.Fingerprint(certificate))
	}
	return err
}

func observes(of *version.Info) bool {
	minor, err := strconv.Atoi(strings.TrimRight(of.Minor, "+"))
	return err == nil && of.Major == "1" && minor >= 34
}

func (b *borrower) lender() (at Lender, err error) {
	p, ok := b.peerings.Get(b.Peering)
	if !ok || p.Status.Announcement == nil || p.Status.Announcement.Offload == nil || p.Status.Announcement.Offload.Lender == nil {
		return at, errors.New("the other cluster has not announced a lender; its admin can: strait lend")
	}
	a := p.Status.Announcement.Offload.Lender
	mapped, ok := merge.Translate(merge.Mappings(p.Status.ExternalPrefixes), string(a.Address))
	if !ok {
		return at, fmt.Errorf("the address of the lender, %s, is not mapped into this cluster; check status.externalPrefixes of Peering %s", a.Address, b.Peering)
	}
	return Lender{Address: netip.AddrPortFrom(mapped, uint16(a.Port)), Fingerprint: string(a.Fingerprint)}, nil //nolint:gosec // the API limits a port
}

// decide decides once.
func (b *borrower) decide(ctx context.Context) (again time.Duration) {
	if !b.pods.HasSynced() {
		return loop.Retry
	}
	again, err := b.pass(ctx)
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot bring both clusters to the same state; retrying", "error", err)
	}
	return again
}

// pass decides once: it sends the list and templates, and writes pods. It returns when to decide again
// without a change.
func (b *borrower) pass(ctx context.Context) (again time.Duration, err error) {
	now := time.Now()
	pods := b.pods.List()
	uids := make(map[string]bool, len(pods))
	for _, pod := range pods {
		uids[string(pod.UID)] = true
	}
	s := b.link.state(uids, now)
	b.Stats.pass(pods, s.said)
	maps.DeleteFunc(b.templates, func(uid types.UID, _ described) bool { return !uids[string(uid)] })
	maps.DeleteFunc(b.offers, func(uid types.UID, _ bool) bool { return !uids[string(uid)] })
	again = decideEvery
	soon := func(failed error) {
		if failed != nil {
			again, err = loop.Retry, errors.Join(err, failed)
		}
	}
	p, ok := b.peerings.Get(b.Peering)
	if !ok {
		return again, err
	}
	if s.fresh {
		b.shelf.Refer(pods, b.describe)
		b.read(ctx, now)
		if next := b.shelf.Next(); !next.IsZero() {
			again = min(again, max(loop.Retry, next.Sub(now)))
		}
		soon(b.follow(ctx, s.hello.Namespaces, pods, now))
		soon(b.send(ctx, pods, s, now))
	}
	v := &View{Peering: b.Peering, Node: b.node, Fresh: s.fresh, Reach: merge.Mappings(p.Status.Prefixes), Now: metav1.NewTime(now.Truncate(time.Second)), Shelf: b.shelf, Observes: b.observes}
	if s.hello != nil {
		v.Lent, v.Largest = s.hello.Namespaces, s.hello.Largest
	}
	room := Room(pods, b.offers)
	var writes []*Write
	late := 0
	for _, pod := range pods {
		of := ConsentUnknown
		v.Full = room <= 0 && !b.offers[pod.UID]
		if v.Fresh && !offered(pod) {
			of = b.consent(ctx, pod.Namespace, now)
		}
		w := Decide(pod, b.describe(pod), s.said[string(pod.UID)], of, v)
		if w == nil {
			continue
		}
		if wait := b.budget.Take(w.size(), now); wait > 0 {
			late++
			again = min(again, max(wait, loop.Retry))
			continue
		}
		if !offered(pod) && w.offers() && !b.offers[pod.UID] {
			b.offers[pod.UID] = true
			room--
		}
		writes = append(writes, w)
	}
	failed := make([]error, len(writes))
	workqueue.ParallelizeUntil(ctx, writers, len(writes), func(i int) { failed[i] = b.write(ctx, writes[i]) })
	soon(errors.Join(failed...))
	b.Stats.waits(late)
	if late > 0 && b.budget.Tell(now) {
		b.log.Warn("the other cluster changes the states of pods faster than this one stores them; the rest waits", "waiting", late)
	}
	return again, err
}

func (b *borrower) describe(pod *corev1.Pod) *Template {
	known, ok := b.templates[pod.UID]
	if !ok || known.version != pod.ResourceVersion {
		known = described{Describe(pod, b.node), pod.ResourceVersion}
		b.templates[pod.UID] = known
	}
	return known.Template
}

// send sends the list unless the lender has it, and templates and contents that the lender misses.
func (b *borrower) send(ctx context.Context, pods []*corev1.Pod, s state, now time.Time) error {
	list, objects := List(pods, b.describe, b.shelf)
	objects = append(objects, b.services()...)
	if n := len(objects); n > protocol.MaxObjects {
		b.log.Warn("the other cluster does not get all Services", "most", protocol.MaxObjects, "left out", n-protocol.MaxObjects)
		objects = objects[:protocol.MaxObjects]
	}
	d := protocol.Desired{Epoch: s.hello.Epoch, Term: b.link.term, Sequence: b.sequence + 1, Pods: list, Objects: objects, Unread: b.unread(s.hello.Namespaces, pods)}
	if digest := d.Sign(); digest != b.sentDigest || s.hello.Epoch != b.sentEpoch {
		b.sequence++
		text, err := d.Encode()
		if err != nil {
			return fmt.Errorf("the list of pods: %w", err)
		}
		b.sentDigest = ""
		if err := b.link.put(ctx, protocol.DesiredPath, text); err != nil {
			return err
		}
		b.sentDigest, b.sentEpoch = digest, s.hello.Epoch
		clear(b.sent)
	}
	for _, pod := range pods {
		said, t := s.said[string(pod.UID)], b.describe(pod)
		if said == nil || said.State != protocol.StateUnknown && !said.Outdated || pod.DeletionTimestamp != nil || t.Err != nil || now.Sub(b.sent[t.Hash]) < resend {
			continue
		}
		text, hash, err := Encode(pod, b.node)
		if err != nil {
			return err
		}
		if err := b.link.put(ctx, protocol.TemplatesPath+hash, text); err != nil {
			return err
		}
		b.sent[hash] = now
	}
	if err := b.sendContents(ctx, s.needs, now); err != nil {
		return err
	}
	return b.sendServices(ctx, s.needs, now)
}
