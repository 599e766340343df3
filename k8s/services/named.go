package services

import (
	"context"
	"errors"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Zone is the DNS zone of imported Services.
const Zone = "clusterset.local"

// VersionName is a name that every DNS server of Kubernetes has in each of its zones, with a
// TXT record (Kubernetes DNS-Based Service Discovery, section 2.2).
const VersionName = "dns-version." + Zone

// NamedCondition is the condition of ServiceImports that is False while the DNS server of
// the cluster does not serve Zone. It is absent while that is not known.
const NamedCondition = "strait.dev/Named"

const (
	dnsInterval = time.Minute
	dnsTimeout  = 5 * time.Second
)

// Resolver resolves names as pods of the cluster do: a *net.Resolver.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

func (w *work) followDNS(ctx context.Context) {
	tick := time.NewTicker(dnsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.askDNS(ctx) {
			w.addEverything()
		}
	}
}

// askDNS asks the DNS server whether it serves the zone, and reports whether that has changed.
// No answer changes nothing.
func (c *Controller) askDNS(ctx context.Context) (changed bool) {
	if c.Resolver == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	_, err := c.Resolver.LookupTXT(ctx, VersionName+".")
	var failed *net.DNSError
	if err != nil && !(errors.As(err, &failed) && failed.IsNotFound) {
		return false
	}
	served := err == nil
	was := c.named.Swap(&served)
	return was == nil || *was != served
}

// namedCondition returns the condition of all imports, nil while nothing is known.
func (c *Controller) namedCondition() *metav1.Condition {
	switch served := c.named.Load(); {
	case served == nil:
		return nil
	case *served:
		return &metav1.Condition{Type: NamedCondition, Status: metav1.ConditionTrue, Reason: "Served", Message: "the DNS server of this cluster serves " + Zone}
	}
	return &metav1.Condition{Type: NamedCondition, Status: metav1.ConditionFalse, Reason: "NotServed",
		Message: "the DNS server of this cluster does not serve " + Zone + ", so the Service has an address and no name; run strait dns configure"}
}
