// Package config is the configuration of one gateway as plain data.
//
// Parse turns a YAML document into a Gateway and accepts nothing it does not
// know; Validate says whether the data makes sense as a whole. Both report every
// problem they find at once, each with its line, its field and what to do about
// it. The package does no I/O: whoever reads the file adds its name with WithFile.
//
// A Gateway may as well be built in code. Its zero values mean what an absent
// field means in a file, except for the defaults that Parse fills in:
// overlay.listen, overlay.nodes[].encapsulation, wireguard.listenPort and
// remote.prefixes[].seenAs.
package config
