// Ociimage packs binaries of Strait, one per platform, into an archive of one container
// image: an OCI image layout as a tar, which containerd, podman and skopeo read. It needs
// no daemon and no network, and its output is reproducible. The bill of materials of each
// binary, in SPDX, is in the image, attached to its platform, and in a file next to the
// archive.
//
//	ociimage -o bin/strait-0.1.0.oci.tar -name strait.dev/strait:0.1.0 BINARY...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"strait.dev/strait/internal/sbom"
)

func main() {
	out := flag.String("o", "", "the archive to write, FILE.oci.tar")
	name := flag.String("name", "", "name of the image, REPOSITORY:TAG")
	source := flag.String("source", "https://strait.dev/strait", "address of the source code, for the label of the image")
	flag.Parse()
	pinned, err := run(*out, *name, *source, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s\n", *out, pinned)
}

// run writes the archive, and returns the image's name with the digest that pins it.
func run(out, name, source string, paths []string) (pinned string, err error) {
	if out == "" || len(paths) == 0 {
		return "", errors.New("missing arguments: pass -o FILE, -name REPOSITORY:TAG and a binary for each platform")
	}
	binaries := make([]*goProgram, len(paths))
	for i, path := range paths {
		if binaries[i], err = readBinary(path); err != nil {
			return "", err
		}
	}
	licences, err := sbom.Licences()
	if err != nil {
		return "", err
	}
	image, digest, boms, err := pack(name, source, binaries, licences)
	if err != nil {
		return "", err
	}
	for i, b := range binaries {
		path := fmt.Sprintf("%s-%s-%s.spdx.json", strings.TrimSuffix(out, ".oci.tar"), b.platform.OS, b.platform.Architecture)
		if err := write(path, boms[i]); err != nil {
			return "", err
		}
	}
	return name + "@" + digest, write(out, image)
}

// write writes a file atomically: other programs may wait for its name.
func write(path string, content []byte) error {
	if err := os.WriteFile(path+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
