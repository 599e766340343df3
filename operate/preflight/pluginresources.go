package preflight

import (
	"context"
	"encoding/json"
	"slices"

	"strait.dev/strait/k8s/client"
)

// gatewayConfig is the part of network.operator of OpenShift that says how OVN-Kubernetes
// routes packets of pods.
type gatewayConfig struct {
	RoutingViaHost bool   `json:"routingViaHost"`
	IPForwarding   string `json:"ipForwarding"`
}

// openShiftNetwork is the part of network.config of OpenShift with CIDRs.
type openShiftNetwork struct {
	ClusterNetwork []struct {
		CIDR string `json:"cidr"`
	} `json:"clusterNetwork"`
	ServiceNetwork []string `json:"serviceNetwork"`
}

func (n *openShiftNetwork) pods() (cidrs []string) {
	for _, one := range n.ClusterNetwork {
		cidrs = append(cidrs, one.CIDR)
	}
	return cidrs
}

// calicoAPIs serve Calico's resources: its custom resources, and its API server or, with
// recent versions, custom resources of that group.
var calicoAPIs = []string{"/apis/crd.projectcalico.org/v1", "/apis/projectcalico.org/v3"}

// readPluginResources reads resources of network plugins. Those that do not exist or may not
// be read are skipped: findings depend on them only for details.
func (f *facts) readPluginResources(ctx context.Context, c *client.Client) {
	object := func(path string, into any) bool {
		text, err := c.Raw(ctx, path)
		return err == nil && json.Unmarshal(text, into) == nil
	}
	for _, api := range calicoAPIs {
		var felix struct{ Spec felixConfiguration }
		if object(api+"/felixconfigurations/default", &felix) {
			f.felix = &felix.Spec
		}
		var pools struct {
			Items []struct {
				Spec struct {
					CIDR     string `json:"cidr"`
					Disabled bool   `json:"disabled"`
				}
			}
		}
		if object(api+"/ippools", &pools) {
			for _, pool := range pools.Items {
				if !pool.Spec.Disabled && !slices.Contains(f.ipPools, pool.Spec.CIDR) {
					f.ipPools = append(f.ipPools, pool.Spec.CIDR)
				}
			}
		}
	}
	var operator struct {
		Spec struct {
			DefaultNetwork struct {
				OVNKubernetesConfig struct {
					GatewayConfig gatewayConfig `json:"gatewayConfig"`
				} `json:"ovnKubernetesConfig"`
			} `json:"defaultNetwork"`
		}
	}
	if object("/apis/operator.openshift.io/v1/networks/cluster", &operator) {
		f.gatewayConfig = &operator.Spec.DefaultNetwork.OVNKubernetesConfig.GatewayConfig
	}
	var network struct{ Status openShiftNetwork }
	if object("/apis/config.openshift.io/v1/networks/cluster", &network) {
		f.openShift = &network.Status
	}
}
