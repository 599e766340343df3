// Package offload is the operator's part of offloading: it makes an agent with its rights in a
// cluster, and lends or offloads namespaces. All objects are in the directory manifests.
package offload
