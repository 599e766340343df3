package controller_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/services"
)

// nameserver is a DNS server whose answers about the zone of imported Services are set.
type nameserver struct{ answer atomic.Pointer[net.DNSError] }

func (n *nameserver) LookupTXT(_ context.Context, name string) ([]string, error) {
	if err := n.answer.Load(); err != nil {
		return nil, err
	}
	return []string{"1.1.0 for " + name}, nil
}

func TestAnImportSaysWhetherTheDNSServerHasItsName(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		dns := new(nameserver)
		dns.answer.Store(&net.DNSError{IsTimeout: true})
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) { o.Resolver = dns })
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		named := func() string {
			i, err := f.ServiceImports("shop").Get(f.Context(), "web", metav1.GetOptions{})
			must(f.T, err)
			if c := meta.FindStatusCondition(i.Status.Conditions, services.NamedCondition); c != nil {
				return string(c.Status) + " " + c.Reason
			}
			return "no condition"
		}
		for _, c := range []struct {
			answer *net.DNSError
			want   string
		}{
			{&net.DNSError{IsTimeout: true}, "no condition"},
			{&net.DNSError{IsNotFound: true}, "False NotServed"},
			{&net.DNSError{IsTimeout: true}, "False NotServed"},
			{nil, "True Served"},
			{&net.DNSError{IsNotFound: true}, "False NotServed"},
		} {
			dns.answer.Store(c.answer)
			f.pause(time.Minute) // the interval of questions
			f.until("the condition "+c.want, func() string {
				if is := named(); is != c.want {
					return is
				}
				return ""
			})
		}
	})
}
