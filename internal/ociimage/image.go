package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/internal/archive"
)

// unprivileged is the user and group; the kubelet needs a number to see that it is not root.
const unprivileged = "65534:65534"

// pack returns the archive of an image, the digest that pins it in all registries, and the
// bill of materials of each binary.
func pack(name, source string, binaries []*goProgram, licences map[string]string) (image []byte, digest string, boms [][]byte, err error) {
	slash, colon := strings.LastIndex(name, "/"), strings.LastIndex(name, ":")
	if colon <= slash || colon == len(name)-1 {
		return nil, "", nil, fmt.Errorf("-name %q has no tag; write REPOSITORY:TAG", name)
	}
	tag := name[colon+1:]
	l := &layout{blobs: make(map[string][]byte)}
	var platforms, attached []descriptor
	for _, b := range binaries {
		if slices.ContainsFunc(platforms, func(d descriptor) bool { return *d.Platform == b.platform }) {
			return nil, "", nil, fmt.Errorf("two binaries are for %s/%s; pass one per platform", b.platform.OS, b.platform.Architecture)
		}
		runs, err := l.addImage(b, facts(b, tag, source))
		if err != nil {
			return nil, "", nil, err
		}
		bom := bomOf(b, tag, licences)
		boms = append(boms, bom)
		attached = append(attached, l.attach(bom, runs, facts(b, tag, source)))
		runs.Platform = &b.platform
		platforms = append(platforms, runs)
	}
	whole := l.addJSON(typeIndex, index{
		SchemaVersion: 2, MediaType: typeIndex, Manifests: append(platforms, attached...), Annotations: facts(binaries[0], tag, source),
	})
	whole.Annotations = map[string]string{keyName: name, keyTag: tag}
	image, err = l.archive(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{whole}})
	return image, whole.Digest, boms, err
}

func (l *layout) addImage(b *goProgram, labels map[string]string) (descriptor, error) {
	unpacked, err := archive.Tar([]archive.File{{Name: "strait", Mode: 0o755, Content: b.content}}, time.Time{})
	if err != nil {
		return descriptor{}, err
	}
	packed, err := archive.Gzip(unpacked)
	if err != nil {
		return descriptor{}, err
	}
	c := config{platform: b.platform, Created: labels[keyCreated]}
	c.Config.User, c.Config.Entrypoint, c.Config.WorkingDir, c.Config.Labels = unprivileged, []string{"/strait"}, "/", labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{"sha256:" + archive.Sum(unpacked)}
	c.History = []history{{Created: labels[keyCreated], CreatedBy: "internal/ociimage"}}
	return l.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest,
		Config: l.addJSON(typeConfig, c), Layers: []descriptor{l.add(typeLayer, packed)}, Annotations: labels,
	}), nil
}

// attach adds a bill of materials as an artifact about an image. It has no platform, so
// that no runtime selects it.
func (l *layout) attach(bom []byte, to descriptor, annotations map[string]string) descriptor {
	content := l.add(typeSPDX, bom)
	content.Annotations = map[string]string{keyTitle: "sbom.spdx.json"}
	d := l.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, ArtifactType: typeSPDX,
		Config: l.add(typeEmpty, []byte("{}")), Layers: []descriptor{content}, Subject: &to, Annotations: annotations,
	})
	d.ArtifactType, d.Platform = typeSPDX, &nowhere
	return d
}

// facts returns the labels of an image.
func facts(b *goProgram, tag, source string) map[string]string {
	all := map[string]string{
		keyTitle: "strait", keyVersion: tag, keyLicences: "Apache-2.0", keySource: source,
	}
	if b.revision != "" {
		all[keyRevision] = b.revision
	}
	if !b.made.IsZero() {
		all[keyCreated] = b.made.UTC().Format(time.RFC3339)
	}
	return all
}
