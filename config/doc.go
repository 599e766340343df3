// Package config is the configuration of one gateway as plain data.
//
// Parse decodes a YAML document into a Gateway and rejects unknown fields; Validate checks the data as a whole. Both
// report all problems at once, each with its line, its field and a remedy. The package does no I/O: the caller reads the
// file and adds its name with WithFile.
//
// A Gateway can also be built in code. A zero value means the same as an absent field in a file, except for the defaults
// that Parse fills in: overlay.listen, overlay.nodes[].encapsulation, wireguard.listenPort and remote.prefixes[].seenAs.
package config
