package nodes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Busybox is an image on every node, for pods of tests. Its entrypoint sleeps forever, so
// it also serves as the pause image.
const Busybox = "strait.test/busybox:1"

// writeBusybox writes that image, with more names, as an archive that containerd imports.
func writeBusybox(file string, names ...string) error {
	return WriteImage(file, Image{Names: append(names, Busybox), Entrypoint: []string{"/bin/sleep", "infinity"}})
}

// Image is an image of this machine's busybox and other programs.
type Image struct {
	Names      []string          // references
	Entrypoint []string          // of containers
	Arguments  []string          // of the entrypoint, unless a pod has some
	Programs   map[string]string // files of this machine, by path in the image
	Scripts    map[string]string // texts, by path in the image
}

// WriteImage writes an image as an archive that containerd imports: a list of images, their
// configurations and layers.
func WriteImage(file string, is Image) error {
	layer, err := is.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": is.Entrypoint, "Cmd": is.Arguments, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	images, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": is.Names, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	a := newArchive()
	a.file("manifest.json", 0o644, images)
	a.file("config.json", 0o644, config)
	a.file("layer.tar", 0o644, layer)
	archive, err := a.close()
	if err != nil {
		return err
	}
	return os.WriteFile(file, archive, 0o600)
}

// layer returns a file system with all applets of busybox, and the programs.
func (is Image) layer() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", path, err)
	}
	a := newArchive()
	a.folder("bin", 0o755)
	a.folder("tmp", 0o1777)
	a.file("bin/busybox", 0o755, program)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			a.link("bin/"+name, "busybox")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is.Scripts)) {
		a.file(strings.TrimPrefix(name, "/"), 0o755, []byte(is.Scripts[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(is.Programs)) {
		text, err := os.ReadFile(is.Programs[name])
		if err != nil {
			return nil, err
		}
		a.file(strings.TrimPrefix(name, "/"), 0o755, text)
	}
	return a.close()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// archive is a tar in memory. Errors are returned by close.
type archive struct {
	bytes.Buffer
	*tar.Writer
	err error
}

func newArchive() *archive {
	a := &archive{}
	a.Writer = tar.NewWriter(&a.Buffer)
	return a
}

func (a *archive) file(name string, mode int64, content []byte) {
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (a *archive) folder(name string, mode int64) {
	a.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (a *archive) link(name, to string) {
	a.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, nil)
}

func (a *archive) add(h tar.Header, content []byte) {
	if a.err == nil {
		a.err = a.Writer.WriteHeader(&h)
	}
	if a.err == nil {
		_, a.err = a.Writer.Write(content)
	}
}

func (a *archive) close() ([]byte, error) {
	if a.err == nil {
		a.err = a.Writer.Close()
	}
	return a.Buffer.Bytes(), a.err
}
