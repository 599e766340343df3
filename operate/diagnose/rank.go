package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/verify"
)

// Cause is something that is wrong, or probably is.
type Cause struct {
	Code     string   `json:"code"` // of findings.Catalog, or the name of a stage of strait status
	Title    string   `json:"title"`
	Evidence []string `json:"evidence"` // observations, each with where it was made
	Remedy   string   `json:"remedy"`
	Page     string   `json:"page,omitempty"`
}

// Seen is what was seen of one cluster or two.
type Seen struct {
	Clusters []ClusterSeen
	Findings []findings.Finding // of preflight
	Checks   []verify.Check     // with packets between the clusters
}

// ClusterSeen is what was seen of the objects of a cluster.
type ClusterSeen struct {
	Name   string // for messages, like "context a"
	Status *operator.Report
	Err    error                     // why there is no Status
	Nodes  map[string][]verify.Check // whether they reach their gateways, by Peering
}

// steps are the steps from an API server to names, in the order in which they have to be reached. All but the first and the last two
// are stages of strait status.
var steps = []string{
	access, "cluster-network", "ranges", "gateways", "endpoint", "handshake", "probes", nodes, "path-mtu", "announced", "services", "names", packets,
}

const (
	access  = "access"
	nodes   = "nodes"
	packets = "packets"
)

// notJoined is the code of a cluster without a Peering.
const notJoined = "joined"

// noAnswer is the code of an API server that does not answer.
const noAnswer = "STRAIT-C001"

// stepOf is the step that fails if what a code stands for is wrong. Codes of leftovers are not here: they are found after
// an uninstallation.
var stepOf = map[string]string{
	noAnswer: access, "STRAIT-C012": access,
	"STRAIT-C004": "cluster-network", "STRAIT-U004": "cluster-network",
	"STRAIT-C005": "ranges", "STRAIT-U002": "ranges",
	"STRAIT-C002": "gateways", "STRAIT-C003": "gateways", "STRAIT-C009": "gateways", "STRAIT-C010": "gateways",
	"STRAIT-C011": "endpoint",
	"STRAIT-N007": "handshake", "STRAIT-U001": "handshake", "STRAIT-U003": "handshake",
	"STRAIT-C006": nodes, "STRAIT-C007": nodes, "STRAIT-C008": nodes, "STRAIT-C013": nodes, "STRAIT-C014": nodes, "STRAIT-C015": nodes, "STRAIT-C016": nodes,
	"STRAIT-N001": nodes, "STRAIT-N002": nodes, "STRAIT-N003": nodes, "STRAIT-N004": nodes, "STRAIT-N008": nodes, "STRAIT-N009": nodes, "STRAIT-N010": nodes,
	"STRAIT-N011": nodes, "STRAIT-N013": nodes, "STRAIT-N015": nodes, "STRAIT-N016": nodes,
	"STRAIT-N006": "path-mtu",
	"STRAIT-D001": "names", "STRAIT-D002": "names", "STRAIT-D003": "names",
	"STRAIT-N005": packets, "STRAIT-N012": packets, "STRAIT-N014": packets,
}

// The ranks of causes, the most likely first.
const (
	noAccess       = iota // nothing else can be known
	explains              // an error about a step that is not reached
	mayExplain            // a warning about it
	notReached            // the first step that is not reached, by itself
	alsoNotReached        // a later one
	elsewhere             // an error about another step
	mayMatter             // a warning about another step
)

type candidate struct {
	Cause
	rank, step int
}

// Causes returns what is wrong, the most likely cause first; none if nothing is wrong. While nothing is wrong, warnings are no causes.
func Causes(s Seen) []Cause {
	var all []candidate
	broken := make(map[int]bool) // by step
	for _, c := range s.Clusters {
		if c.Err != nil {
			broken[0] = true
			if !slices.ContainsFunc(s.Findings, func(f findings.Finding) bool { return f.Code == noAnswer && f.Subject == c.Name }) {
				all = append(all, candidate{fault(c), noAccess, 0})
			}
			continue
		}
		if len(c.Status.Peerings) == 0 {
			all = append(all, candidate{Cause{notJoined, "the cluster is not joined to another one", []string{c.Name + ": there is no Peering"},
				"Use strait peer, or strait invite here and strait accept in the other cluster.", ""}, notReached, 0})
		}
		for i := range c.Status.Peerings {
			p := &c.Status.Peerings[i]
			all = append(all, stages(c.Name, p, broken)...)
			all = append(all, failed(nodes, c.Nodes[p.Name], broken)...)
		}
	}
	all = append(all, failed(packets, s.Checks, broken)...)
	well := len(all) == 0 && findings.Worst(s.Findings) != findings.Error
	for _, f := range s.Findings {
		step := slices.Index(steps, stepOf[f.Code])
		rank := elsewhere
		switch {
		case f.Severity != findings.Error && f.Severity != findings.Warning, f.Severity == findings.Warning && well:
			continue
		case f.Code == noAnswer:
			rank = noAccess
		case f.Severity == findings.Error && broken[step]:
			rank = explains
		case f.Severity == findings.Warning && broken[step]:
			rank = mayExplain
		case f.Severity == findings.Warning:
			rank = mayMatter
		}
		all = append(all, candidate{Cause{f.Code, findings.Catalog[f.Code].Title, []string{f.Subject + ": " + strings.TrimPrefix(f.Message, f.Subject+": ")}, f.Remedy, f.Page}, rank, step})
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.step, b.step), cmp.Compare(a.Code, b.Code))
	})
	return joined(all)
}

// joined returns the causes, those with the same code and remedy as one.
func joined(all []candidate) (causes []Cause) {
	for _, c := range all {
		at := slices.IndexFunc(causes, func(other Cause) bool { return other.Code == c.Code && other.Remedy == c.Remedy })
		if at < 0 {
			causes = append(causes, c.Cause)
			continue
		}
		for _, e := range c.Evidence {
			if !slices.Contains(causes[at].Evidence, e) {
				causes[at].Evidence = append(causes[at].Evidence, e)
			}
		}
	}
	return causes
}

// fault is the cause for which a cluster has no status. Its error names the remedy.
func fault(c ClusterSeen) Cause {
	fact, remedy := split(c.Err.Error())
	return Cause{Code: access, Title: "the status of the cluster cannot be read", Evidence: []string{fact}, Remedy: cmp.Or(remedy, "Read the error: strait status prints it too.")}
}

// stages returns the causes in the stages of a peering: the first that is not reached, and later ones that failed by
// themselves. It adds their steps to broken.
func stages(cluster string, p *operator.PeeringReport, broken map[int]bool) (all []candidate) {
	if p.Ready {
		return nil
	}
	for _, s := range p.Stages {
		if s.State == operator.Reached || s.State == operator.Pending && len(all) > 0 {
			continue
		}
		step, rank := slices.Index(steps, s.Name), notReached
		if len(all) > 0 {
			rank = alsoNotReached
		}
		broken[step] = true
		fact, remedy := split(s.Message)
		all = append(all, candidate{Cause{
			Code: s.Name, Title: "stage " + s.Name + " of strait status is not reached",
			Evidence: []string{fmt.Sprintf("%s, Peering %s: %s", cluster, p.Name, cmp.Or(fact, s.Reason))},
			Remedy:   cmp.Or(remedy, remedies[s.Name]),
		}, rank, step})
	}
	if len(all) == 0 { // the controller says why in one sentence only
		fact, remedy := split(p.Missing)
		all = append(all, candidate{Cause{"ready", "the peering is not ready", []string{fmt.Sprintf("%s, Peering %s: %s", cluster, p.Name, fact)},
			cmp.Or(remedy, "Check that strait controller runs, and read its log."), ""}, notReached, len(steps)})
	}
	return all
}

// remedies are those of stages whose messages have none.
var remedies = map[string]string{
	"cluster-network": "Set the CIDRs with the chart's value clusterNetwork.",
	"ranges":          "Set seenAs in the Peering to a free CIDR.",
	"gateways":        "Look at the gateway's pod with kubectl describe pods --namespace " + install.GatewayNamespace + ": an event says why it does not run.",
	"endpoint":        "Set spec.gateway.service.type to NodePort or LoadBalancer in one of the clusters.",
	"handshake":       "Allow UDP to the endpoint in firewalls and security groups, and check that each cluster has the other's public key.",
	"probes":          "Check that the gateways of both clusters run, and that UDP passes in both directions.",
	nodes:             "Check the node helper's pods (DaemonSet strait-node in strait-nodes), and allow UDP 6091 and 6092 between nodes and pods.",
	"path-mtu":        "Lower clusterNetwork.overlay.mtu in both clusters to what the path between them carries.",
	"announced":       "Accept what the remote cluster announces in spec.acceptPrefixes, or change what it announces.",
	"services":        "Run strait services: it says why a Service is not imported.",
}

// failed returns the causes that the failed checks of a step name. It adds the step to broken.
func failed(name string, checks []verify.Check, broken map[int]bool) (all []candidate) {
	step := slices.Index(steps, name)
	for _, c := range checks {
		if c.Outcome != verify.Failed {
			continue
		}
		broken[step] = true
		all = append(all, candidate{Cause{
			Code: name, Title: cmp.Or(c.Cause, "a check of strait verify failed"),
			Evidence: []string{strings.TrimSuffix(c.Name()+": "+c.Detail, ": ")},
			Remedy:   cmp.Or(c.Remedy, remedies[name], "Run strait trace from the pod to the address of the check."),
		}, notReached, step})
	}
	return all
}

// split splits a message of the form "fact; remedy", and begins the remedy like a sentence.
func split(message string) (fact, remedy string) {
	fact, remedy, _ = strings.Cut(message, "; ")
	if remedy == "" {
		return fact, ""
	}
	return fact, strings.ToUpper(remedy[:1]) + strings.TrimSuffix(remedy[1:], ".") + "."
}
