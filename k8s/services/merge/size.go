package merge

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Limits of a record, in bytes.
const (
	// MaxProperties is the maximum length of all labels and annotations.
	MaxProperties = 4 << 10
	// maxDescription is the maximum size of everything but endpoints: enough for as many ports as
	// are exported.
	maxDescription = 128 << 10
	// MaxRecordEndpoints is the maximum number of endpoints: one object has to hold all of
	// them, in about 0.7 MB.
	MaxRecordEndpoints = 5000
)

// DefaultMaxBytes is the size of all records of a Peering together if it sets no limit: the
// default of the API.
const DefaultMaxBytes = 8 << 20

// Bytes of the parts of a record in JSON, without the texts in them.
const (
	recordBytes   = 512 // with the metadata of its object
	propertyBytes = 24  // more than in JSON, because of the maps in memory
	portBytes     = 48
	groupBytes    = 32
	endpointBytes = 48
	textBytes     = 14 // of an optional text
)

// Size returns the size of a record in bytes: about its length in JSON, except that the ports
// of endpoints count once for each EndpointSlice that has them. So it bounds what the record
// makes an importing cluster store.
func Size(r *v1alpha1.ServiceRecord) (bytes int) {
	bytes = descriptionSize(r)
	for i := range r.Endpoints {
		for j := range r.Endpoints[i].Endpoints {
			e := &r.Endpoints[i].Endpoints[j]
			bytes += endpointBytes + len(e.Address) + textSize(e.Hostname) + textSize(e.Zone)
		}
	}
	return bytes
}

// CheckSize returns why a record is too large, nil if it is not.
func CheckSize(r *v1alpha1.ServiceRecord) error {
	if n := propertiesSize(r); n > MaxProperties {
		return fmt.Errorf("its labels and annotations have %d bytes; export at most %d", n, MaxProperties)
	}
	if n := descriptionSize(r); n > maxDescription {
		return fmt.Errorf("without its endpoints it has %d bytes; export at most %d: fewer ports, or fewer different sets of ports", n, maxDescription)
	}
	if n := Endpoints(r); n > MaxRecordEndpoints {
		return fmt.Errorf("it has %d endpoints; export at most %d", n, MaxRecordEndpoints)
	}
	return nil
}

// Endpoints returns the number of endpoints of a record.
func Endpoints(r *v1alpha1.ServiceRecord) (n int) {
	for i := range r.Endpoints {
		n += len(r.Endpoints[i].Endpoints)
	}
	return n
}

// DropEmpty removes entries without endpoints, from which nothing is imported.
func DropEmpty(r *v1alpha1.ServiceRecord) {
	r.Endpoints = slices.DeleteFunc(r.Endpoints, func(g v1alpha1.ServiceRecordEndpoints) bool { return len(g.Endpoints) == 0 })
}

func descriptionSize(r *v1alpha1.ServiceRecord) (bytes int) {
	bytes = recordBytes + propertiesSize(r) + portsSize(r.Ports)
	for i := range r.Endpoints {
		g := &r.Endpoints[i]
		bytes += groupBytes + portsSize(g.Ports)*max((len(g.Endpoints)+MaxEndpoints-1)/MaxEndpoints, 1)
	}
	return bytes
}

func propertiesSize(r *v1alpha1.ServiceRecord) (bytes int) {
	for _, all := range []map[string]string{r.Labels, r.Annotations} {
		for key, value := range all {
			bytes += propertyBytes + len(key) + len(value)
		}
	}
	return bytes
}

func portsSize(all []v1alpha1.ServiceRecordPort) (bytes int) {
	for i := range all {
		bytes += portBytes + len(all[i].Name) + textSize(ptr.Deref(all[i].AppProtocol, ""))
	}
	return bytes
}

func textSize(optional string) int {
	if optional == "" {
		return 0
	}
	return textBytes + len(optional)
}
