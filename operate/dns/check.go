package dns

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// Check returns findings about the configuration of the DNS server of a cluster. It only
// reads from the API server. It finds no errors: names may resolve in other ways.
func Check(ctx context.Context, c operator.Cluster, o Options) (all []findings.Finding) {
	add := func(code string, severity findings.Severity, format string, values ...any) {
		all = append(all, findings.New(code, severity, c.Name, format, values...))
	}
	is, err := Find(ctx, c.Client, o)
	var other *otherServer
	if errors.As(err, &other) && other.forwards() != "" {
		add("STRAIT-D001", findings.OK, "Deployment %s is not CoreDNS, and forwards %s", other.deployment, Zone)
		add("STRAIT-D002", findings.OK, "%s is forwarded to %s", Zone, other.forwards())
		return all
	}
	if err != nil {
		severity := findings.Warning
		if apierrors.IsForbidden(err) {
			severity = findings.Skipped
		}
		add("STRAIT-D001", severity, "%v", err)
		add("STRAIT-D002", findings.Skipped, "the configuration of CoreDNS was not found")
		return all
	}
	if err := is.Supported(); err != nil {
		add("STRAIT-D001", findings.Warning, "%v", err)
	} else {
		add("STRAIT-D001", findings.OK, "CoreDNS %s, Deployment %s/%s", is.Version, is.Namespace, is.Deployment)
	}
	if !is.Served() {
		add("STRAIT-D002", findings.Info, "CoreDNS is not configured to serve %s; after the installation of Strait, run strait dns configure", Zone)
		return all
	}
	may, err := c.Client.MayRead(ctx, is.Namespace, is.Account, mcsv1beta1.GroupName, imports)
	switch {
	case err != nil:
		add("STRAIT-D002", findings.Skipped, "the permissions of CoreDNS cannot be read: %v", err)
	case !may:
		add("STRAIT-D002", findings.Warning, "CoreDNS is configured to serve %s, but its ServiceAccount %s/%s may not list and watch ServiceImports", Zone, is.Namespace, is.Account)
	case len(is.unforwarded()) > 0:
		add("STRAIT-D002", findings.Warning, "CoreDNS serves %s, but DaemonSet %s, which answers the DNS queries of pods, does not forward the zone to it; run strait dns configure", Zone, is.unforwarded()[0].set)
	default:
		add("STRAIT-D002", findings.OK, "CoreDNS serves %s", Zone)
	}
	return all
}
