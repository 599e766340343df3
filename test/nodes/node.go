package nodes

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/test/netns"
)

// node is a machine of a cluster: a process tree in separate namespaces.
type node struct {
	c       *Cluster
	number  int // from 1
	name    string
	network *netns.Namespace
	dir     string
	daemons cgroups
	first   *process // when it ends, all others end
	kubelet *process
}

// machine is the script of a node's first process.
//
//go:embed node.sh
var machine string

// up starts the node, and returns when its images are loaded and the kubelet has started.
func (n *node) up() error {
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		return err
	}
	if err := n.register(); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return err
	}
	if err := n.boot(); err != nil {
		return err
	}
	containerd, err := n.daemon("containerd", "--config="+n.file("containerd.toml"))
	if err != nil {
		return err
	}
	if err := until(n.c.lab.ctx, containerd, "import of images on "+n.name, func(ctx context.Context) error {
		return n.load(ctx, filepath.Join(n.c.lab.dir, "busybox.tar"))
	}); err != nil {
		return err
	}
	if n.c.cni != Bridge {
		if err := n.startFlannel(); err != nil {
			return err
		}
	}
	if _, err := n.daemon("kube-proxy", "--config="+n.file("kube-proxy.yaml")); err != nil {
		return err
	}
	access, err := n.c.access("system:node:"+n.name, "system:nodes")
	if err != nil {
		return err
	}
	n.kubelet, err = n.daemon("kubelet", "--config="+n.file("kubelet.yaml"), "--kubeconfig="+access,
		"--hostname-override="+n.name, "--node-ip="+list(n.c.families, func(f family) string { return f.node(n.c.index, n.number) }))
	return err
}

// register creates the Node object, so that its pods use the CIDRs that are routed to it. It
// has an annotation of the kubelet, because flanneld panics at a node without any.
func (n *node) register() error {
	var cidrs []string
	for _, f := range n.c.families {
		cidrs = append(cidrs, f.podRange(n.c.pods, n.number))
	}
	_, err := n.c.api.CoreV1().Nodes().Create(n.c.lab.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
		Spec:       corev1.NodeSpec{PodCIDR: cidrs[0], PodCIDRs: cidrs},
	}, metav1.CreateOptions{})
	return err
}

// boot creates the node's namespaces and file systems.
func (n *node) boot() error {
	own, err := n.c.lab.cgroups.child(n.name)
	if err != nil {
		return err
	}
	ready := n.file("booted")
	n.first, err = n.c.lab.start(&process{name: n.name, log: n.file("boot.log"), network: n.network, cgroups: own,
		fresh:   syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		command: []string{"unshare", "--cgroup", "bash", "-c", machine, "boot", n.name, n.dir}})
	if err != nil {
		return err
	}
	if err := until(n.c.lab.ctx, n.first, "boot of "+n.name, func(context.Context) error {
		_, err := os.Stat(ready)
		return err
	}); err != nil {
		return err
	}
	for _, dir := range own {
		n.daemons = append(n.daemons, filepath.Join(dir, "daemons"))
	}
	return nil
}

// enter returns a command that runs in all namespaces of the node.
func (n *node) enter(command ...string) []string {
	return append([]string{"nsenter", "--target=" + strconv.Itoa(n.first.cmd.Process.Pid),
		"--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--"}, command...)
}

// daemon starts a program on the node; in its environment NODE_NAME is the node's name.
func (n *node) daemon(name string, args ...string) (*process, error) {
	program := append([]string{"env", "PATH=" + n.c.lab.programs + ":" + os.Getenv("PATH"), "NODE_NAME=" + n.name, name}, args...)
	return n.c.lab.start(&process{name: n.name + "/" + name, log: n.file(name + ".log"), network: n.network, cgroups: n.daemons,
		command: n.enter(program...)})
}

// load loads the images of an archive on the node.
func (n *node) load(ctx context.Context, archive string) error {
	ctr := n.enter(filepath.Join(n.c.lab.programs, "ctr"), "--namespace=k8s.io", "images", "import", archive)
	out, err := exec.CommandContext(ctx, ctr[0], ctr[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr: %w: %s", err, out)
	}
	return nil
}

func (n *node) file(name string) string { return filepath.Join(n.dir, name) }
