package network

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// clusterID returns the ID of the cluster and its source: the ID of the spec, else that of
// a ClusterProperty (KEP-2149), else one of the UID of the namespace kube-system.
//
// Remote clusters refuse a cluster that changes its ID. So the ClusterProperty is only read
// while the status has no ID yet: later, it may appear, change and disappear.
func clusterID(ctx context.Context, c *client.Client, of *v1alpha1.ClusterNetwork, systemUID string, log *slog.Logger) (v1alpha1.ClusterID, v1alpha1.Source, error) {
	own := shortID(systemUID)
	switch is := of.Status; {
	case of.Spec.ClusterID != "":
		return of.Spec.ClusterID, v1alpha1.SourceGiven, nil
	case is.ClusterID != "" && is.Sources.ClusterID == sourceProperty:
		return is.ClusterID, sourceProperty, nil
	case is.ClusterID == own:
		return own, sourceSystem, nil
	}
	property, err := clusterProperty(ctx, c, log)
	switch {
	case err != nil:
		return "", "", err
	case property == "":
		return own, sourceSystem, nil
	case config.CheckLabel(property) != nil:
		log.Warn("the ClusterProperty cluster.clusterset.k8s.io is not an RFC 1123 label and is ignored; correct it, or set spec.clusterID of ClusterNetwork default",
			"value", property, "clusterID", own)
		return own, sourceSystem, nil
	}
	return v1alpha1.ClusterID(property), sourceProperty, nil
}

// clusterProperty returns the ID that an administrator gave the cluster with the About API,
// empty if there is none.
func clusterProperty(ctx context.Context, c *client.Client, log *slog.Logger) (string, error) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		text, err := c.Raw(ctx, "/apis/about.k8s.io/"+version+"/clusterproperties/cluster.clusterset.k8s.io")
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", unlessMissing(err, "ClusterProperty cluster.clusterset.k8s.io", log)
		}
		var property struct{ Spec struct{ Value string } }
		if err := json.Unmarshal(text, &property); err != nil {
			return "", fmt.Errorf("ClusterProperty cluster.clusterset.k8s.io: %w", err)
		}
		return property.Spec.Value, nil
	}
	return "", nil
}

// shortID derives a cluster ID from the UID of an object that lives as long as the cluster.
func shortID(uid string) v1alpha1.ClusterID {
	short := strings.ReplaceAll(uid, "-", "")
	return v1alpha1.ClusterID("c" + short[:min(len(short), 8)]) // names of Services start with a letter
}
