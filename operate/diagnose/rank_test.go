package diagnose

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/verify"
)

// well is what is seen of two joined clusters without a fault.
func well() Seen {
	var s Seen
	for name, remote := range map[string]string{"context a": "b", "context b": "a"} {
		p := operator.PeeringReport{Name: remote, Ready: true}
		for _, step := range steps[1 : len(steps)-2] {
			p.Stages = append(p.Stages, operator.Stage{Name: step, State: operator.Reached})
		}
		s.Clusters = append(s.Clusters, ClusterSeen{Name: name, Status: &operator.Report{Ready: true, Peerings: []operator.PeeringReport{p}},
			Nodes: map[string][]verify.Check{remote: {{Group: verify.OfPeering, What: "gateway " + remote + "-0 is reachable from all nodes", Outcome: verify.Passed}}}})
	}
	slices.SortFunc(s.Clusters, func(a, b ClusterSeen) int { return strings.Compare(a.Name, b.Name) })
	for _, code := range []string{"STRAIT-C001", "STRAIT-C004", "STRAIT-N001", "STRAIT-U001", "STRAIT-D002"} {
		s.Findings = append(s.Findings, findings.New(code, findings.OK, "context a", "as it is to be"))
	}
	s.Checks = []verify.Check{{Group: verify.OfMatrix, From: "a", To: "b", What: "tcp", Outcome: verify.Passed}}
	return s
}

// fails makes a stage of the Peering of a cluster fail, and those after it wait.
func (s *Seen) fails(cluster int, step, message string) {
	s.Checks = nil // packets are not sent until all peerings are ready
	s.Clusters[cluster].Status.Ready = false
	p := &s.Clusters[cluster].Status.Peerings[0]
	p.Ready, p.Missing = false, message
	failed := false
	for i := range p.Stages {
		switch {
		case p.Stages[i].Name == step:
			p.Stages[i].State, p.Stages[i].Message, failed = operator.Failed, message, true
		case failed:
			p.Stages[i].State, p.Stages[i].Message = operator.Pending, "not known yet"
		}
	}
	if !failed {
		panic("no stage " + step)
	}
}

func (s *Seen) finds(code string, severity findings.Severity, message string) {
	s.Findings = append(s.Findings, findings.New(code, severity, "context b, node n1", "%s", message))
}

// worlds are clusters with one fault each, with what the checks see of it, and the code of the cause.
var worlds = []struct {
	name   string
	cause  string
	breaks func(*Seen)
}{
	{"the firewall drops UDP between the clusters", "STRAIT-U001", func(s *Seen) {
		s.fails(0, "handshake", "no gateway of the remote cluster has answered yet; check that UDP passes to the endpoint")
		s.fails(1, "handshake", "no gateway of the remote cluster has answered yet; check that UDP passes to the endpoint")
		s.finds("STRAIT-U001", findings.Error, "no datagram arrives in either direction")
	}},
	{"the firewall drops UDP between the nodes", "STRAIT-N010", func(s *Seen) {
		s.fails(1, "nodes", "node n1 does not reach gateway a-0; see its node helper")
		s.finds("STRAIT-N010", findings.Error, "UDP 6091 does not arrive from node n2")
	}},
	{"a node lacks the module geneve", "STRAIT-N001", func(s *Seen) {
		s.fails(1, "nodes", "no routes on node n1; see its node helper")
		s.finds("STRAIT-N001", findings.Error, "neither geneve nor vxlan")
	}},
	{"a node lacks nf_tables", "STRAIT-N002", func(s *Seen) {
		s.fails(1, "nodes", "no routes on node n1; see its node helper")
		s.finds("STRAIT-N002", findings.Error, "nf_tables is missing")
	}},
	{"a path carries less than it says", "STRAIT-N006", func(s *Seen) {
		s.fails(0, "path-mtu", "packets of 1440 bytes do not pass, those of 1300 do")
		s.finds("STRAIT-N006", findings.Error, "MTU 1350 on node n1, 1500 on others")
	}},
	{"a path carries less, and no node shows it", "path-mtu", func(s *Seen) {
		s.fails(0, "path-mtu", "packets of 1440 bytes do not pass, those of 1300 do")
	}},
	{"the clock of a node is wrong", "STRAIT-N007", func(s *Seen) {
		s.fails(1, "handshake", "the last one was 3h ago; check that UDP still passes to the endpoint")
		s.finds("STRAIT-N007", findings.Error, "the clock is 4h behind")
	}},
	{"the clocks of the clusters differ", "STRAIT-U003", func(s *Seen) {
		s.fails(1, "handshake", "no gateway of the remote cluster has answered yet; check that UDP passes to the endpoint")
		s.finds("STRAIT-U003", findings.Warning, "the clocks differ by 12 minutes")
		s.finds("STRAIT-N005", findings.Warning, "rmem_max is 212992")
	}},
	{"an invite expired", "endpoint", func(s *Seen) {
		s.fails(0, "endpoint", "the invite expired before it was accepted; create a new one with strait invite b")
	}},
	{"no cluster accepts connections", "endpoint", func(s *Seen) {
		s.fails(0, "endpoint", "neither cluster accepts connections; set spec.gateway.service.type to NodePort")
		s.finds("STRAIT-C011", findings.Warning, "no controller for Services of type LoadBalancer")
	}},
	{"the remote ranges overlap the pools", "STRAIT-C005", func(s *Seen) {
		s.fails(0, "ranges", "10.0.0.0/16 is not mapped: 10.96.0.0/16 overlaps; set its seenAs to a free CIDR")
		s.finds("STRAIT-C005", findings.Error, "the remap pool overlaps the CIDR of Services")
	}},
	{"no range is left for the remote pods", "STRAIT-U002", func(s *Seen) {
		s.fails(0, "ranges", "10.0.0.0/16 is not mapped: the pool is full")
		s.finds("STRAIT-U002", findings.Error, "no free /16 in the remap pools")
	}},
	{"the CIDRs of pods are not known", "STRAIT-C004", func(s *Seen) {
		s.fails(0, "cluster-network", "no pod CIDRs were detected; declare them")
		s.finds("STRAIT-C004", findings.Error, "nodes have no podCIDR")
	}},
	{"the network plugin masquerades", "STRAIT-C008", func(s *Seen) {
		s.Checks = []verify.Check{{Group: verify.OfMatrix, From: "a", To: "b", What: "source address", Outcome: verify.Failed, Detail: "the server sees 192.0.2.21",
			Cause: "the network plugin masquerades packets to the remote cluster", Remedy: "exclude the remote CIDRs from masquerading"}}
		s.finds("STRAIT-C008", findings.Error, "pods leave the node without its routing table")
	}},
	{"a rule on the node precedes Strait's", "STRAIT-N015", func(s *Seen) {
		s.fails(1, "nodes", "packets of node n1 take another table")
		s.finds("STRAIT-N015", findings.Error, "rule 100 looks up table 200")
	}},
	{"another product has the node's links", "STRAIT-N008", func(s *Seen) {
		s.fails(1, "nodes", "no routes on node n1")
		s.finds("STRAIT-N008", findings.Error, "a route of 10.71.0.0/16 to liqo0")
	}},
	{"CoreDNS does not know the zone", "STRAIT-D002", func(s *Seen) {
		s.finds("STRAIT-D002", findings.Error, "the Corefile does not serve clusterset.local")
	}},
	{"CoreDNS is too old", "STRAIT-D001", func(s *Seen) {
		s.finds("STRAIT-D001", findings.Error, "CoreDNS 1.8.0")
	}},
	{"the API server is away", "STRAIT-C001", func(s *Seen) {
		s.Checks = nil
		s.Clusters[1] = ClusterSeen{Name: "context b", Err: errors.New("context b: the API server cannot be reached")}
		s.Findings = []findings.Finding{findings.New("STRAIT-C001", findings.Error, "context b", "context b: connection refused")}
	}},
	{"Strait is not installed", access, func(s *Seen) {
		s.Checks = nil
		s.Clusters[1] = ClusterSeen{Name: "context b", Err: errors.New("context b: Strait's CRDs are not installed; install Strait in that cluster first")}
	}},
	{"the controller does not run", access, func(s *Seen) {
		s.Checks = nil
		s.Clusters[1] = ClusterSeen{Name: "context b", Err: errors.New("context b: the controller has not reported the status of ClusterNetwork default yet; check that strait controller runs")}
	}},
	{"a quota refuses the gateway", "gateways", func(s *Seen) {
		s.fails(0, "gateways", "gateway b-0 does not run: exceeded quota: cpu; raise the quota of namespace strait-system")
	}},
	{"Pod Security refuses the node helper", "STRAIT-C015", func(s *Seen) {
		s.fails(1, "nodes", "no node helper runs on node n1")
		s.finds("STRAIT-C015", findings.Error, "the cluster refuses a pod with the privileges of the node helper")
	}},
	{"Pod Security refuses the gateways", "STRAIT-C009", func(s *Seen) {
		s.fails(1, "gateways", "a-0 is not created: violates PodSecurity")
		s.finds("STRAIT-C009", findings.Error, "enforce is not a level")
	}},
	{"the same cluster twice", "STRAIT-U004", func(s *Seen) {
		s.fails(0, "cluster-network", "the remote cluster has the ID of this one")
		s.finds("STRAIT-U004", findings.Error, "both contexts lead to cluster a")
	}},
	{"what is announced is not granted", "announced", func(s *Seen) {
		s.fails(0, "announced", "10.9.0.0/16 is not granted; to accept it, add it to spec.acceptPrefixes")
	}},
	{"a node does not reach its gateway", nodes, func(s *Seen) {
		s.Clusters[0].Nodes["b"][0].Outcome, s.Clusters[0].Nodes["b"][0].Detail = verify.Failed, "not from n2 (no answer)"
	}},
	{"a policy drops packets to the gateway", "STRAIT-C007", func(s *Seen) {
		s.Clusters[0].Nodes["b"][0].Outcome = verify.Failed
		s.finds("STRAIT-C007", findings.Error, "policies match nodes by identity")
	}},
	{"one path between pods fails", packets, func(s *Seen) {
		s.Checks[0].Outcome, s.Checks[0].Detail = verify.Failed, "no answer"
	}},
	{"the clusters are not joined", "joined", func(s *Seen) {
		s.Checks, s.Clusters[0].Status = nil, &operator.Report{}
	}},
}

func TestTheCauseOfEachFaultIsFirstOrSecond(t *testing.T) {
	for _, w := range worlds {
		s := well()
		w.breaks(&s)
		causes := Causes(s)
		at := slices.IndexFunc(causes, func(c Cause) bool { return c.Code == w.cause })
		if at < 0 || at > 1 {
			t.Errorf("%s: cause %s is at %d of %+v", w.name, w.cause, at, causes)
		}
		for _, c := range causes {
			if c.Title == "" || c.Remedy == "" || len(c.Evidence) == 0 || !strings.HasSuffix(c.Remedy, ".") && c.Code != nodes && c.Code != packets {
				t.Errorf("%s: %+v lacks a part", w.name, c)
			}
		}
	}
}

func TestTwoClustersWithoutAFaultRaiseNoAlarm(t *testing.T) {
	s := well()
	s.finds("STRAIT-N005", findings.Warning, "rmem_max is 212992")
	s.finds("STRAIT-C011", findings.Info, "no controller for Services of type LoadBalancer")
	s.finds("STRAIT-C012", findings.Skipped, "pods are disabled")
	if causes := Causes(s); len(causes) != 0 {
		t.Errorf("causes of nothing: %+v", causes)
	}
	if r := report(s, false); !r.Well || r.Checks != (Checks{Findings: 7, Warnings: 1, Peerings: 2, Packets: 1}) {
		t.Errorf("report %+v", r)
	}
}

func TestEveryCodeOfPreflightBreaksAStep(t *testing.T) {
	for code := range findings.Catalog {
		if !strings.HasPrefix(code, "STRAIT-L") && !slices.Contains(steps, stepOf[code]) {
			t.Errorf("%s breaks no step", code)
		}
	}
	for _, s := range steps[1:] {
		if s != "names" && s != packets && remedies[s] == "" {
			t.Errorf("step %s has no remedy", s)
		}
	}
}

// The same fault in both clusters is one cause with two observations.
func TestTheSameCauseIsOne(t *testing.T) {
	s := well()
	for i := range s.Clusters {
		s.fails(i, "endpoint", "neither cluster accepts connections; set spec.gateway.service.type to NodePort")
	}
	causes := Causes(s)
	if len(causes) != 1 || len(causes[0].Evidence) != 2 || causes[0].Remedy != "Set spec.gateway.service.type to NodePort." {
		t.Errorf("causes %+v", causes)
	}
	var table strings.Builder
	if err := Table(&table, report(s, true)); err != nil {
		t.Fatal(err)
	}
	const want = `1. stage endpoint of strait status is not reached (endpoint)
     context a, Peering b: neither cluster accepts connections
     context b, Peering a: neither cluster accepts connections
   → Set spec.gateway.service.type to NodePort.

looked at 2 peerings, 5 findings of preflight and 0 checks with packets; without --no-pods nodes and packets are looked at too
`
	if table.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", table.String(), want)
	}
}
