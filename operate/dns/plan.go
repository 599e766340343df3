package dns

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
)

// roleName is the name of the ClusterRole, and of its ClusterRoleBinding, that permits
// CoreDNS to read ServiceImports. The ClusterRole of CoreDNS itself belongs to the
// distribution, which may restore it.
const roleName = "strait-coredns"

// imports is the resource that CoreDNS reads.
const imports = "serviceimports"

// Change is the change of one object, as a unified diff or a line of text.
type Change struct {
	Object string `json:"object"`
	Diff   string `json:"diff"`
	apply  func(context.Context, *client.Client) error
}

// Plan is what to change in a cluster, in this order.
type Plan struct {
	CoreDNS *CoreDNS `json:"-"`
	Changes []Change `json:"changes"`
	// Restart means that CoreDNS does not read a changed Corefile until it is restarted.
	Restart bool `json:"restart"`
}

// Apply makes the changes. It may be called again after an error.
func (p *Plan) Apply(ctx context.Context, c *client.Client) error {
	for _, change := range p.Changes {
		if err := change.apply(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", change.Object, err)
		}
	}
	return nil
}

// PlanConfigure returns the changes that let CoreDNS serve the zone, none if it does.
func PlanConfigure(ctx context.Context, c *client.Client, o Options) (*Plan, error) {
	is, err := Find(ctx, c, o)
	var other *otherServer
	if errors.As(err, &other) && other.forwards() != "" {
		return &Plan{Changes: []Change{}}, nil
	}
	if err == nil {
		err = is.Supported()
	}
	if err == nil {
		err = importsServed(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{CoreDNS: is, Changes: []Change{}}
	may, err := c.MayRead(ctx, is.Namespace, is.Account, mcsv1beta1.GroupName, imports)
	if err != nil {
		return nil, fmt.Errorf("check the permissions of CoreDNS: %w", err)
	}
	if !may { // first: without the permission, CoreDNS does not answer for names that do not exist
		p.Changes = append(p.Changes, is.grant())
	}
	if !is.Served() {
		change, err := is.configure()
		if err != nil {
			return nil, err
		}
		p.Changes, p.Restart = append(p.Changes, change), !is.reloads()
	}
	for _, l := range is.unforwarded() {
		change, err := l.change(func(text string) (string, error) { return ConfigureForward(text, is.ownZones()) })
		if err != nil {
			return nil, err
		}
		p.Changes = append(p.Changes, change)
	}
	return p, nil
}

// PlanRemove returns the changes that revert those of PlanConfigure, none if there are none.
func PlanRemove(ctx context.Context, c *client.Client, o Options) (*Plan, error) {
	is, err := Find(ctx, c, o)
	var other *otherServer
	switch {
	case errors.As(err, &other) && other.forwards() != "":
		return nil, fmt.Errorf("Deployment %s forwards %s to %s; remove the zone from %s in ConfigMap %s", other.deployment, Zone, other.forwards(), stubDomainsKey, kubeDNS)
	case errors.As(err, &other):
		return &Plan{Changes: []Change{}}, nil
	case err != nil:
		return nil, err
	}
	p := &Plan{CoreDNS: is, Changes: []Change{}}
	for _, l := range is.locals {
		change, err := l.change(func(text string) (string, error) { return RemoveForward(text), nil })
		if err != nil {
			return nil, err
		}
		if change.Diff != "" {
			p.Changes = append(p.Changes, change)
		}
	}
	forwards := len(p.Changes)
	if is.custom != nil && is.custom.Data[customKey] != "" {
		p.Changes = append(p.Changes, is.removeCustom())
	}
	text, err := Remove(is.text())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", objectOf(is.corefile), err)
	}
	if text != is.text() {
		p.Changes = append(p.Changes, is.write(text))
	}
	p.Restart = len(p.Changes) > forwards && !is.reloads()
	_, roleErr := c.ClusterRoles().Get(ctx, roleName, metav1.GetOptions{})
	_, bindingErr := c.ClusterRoleBindings().Get(ctx, roleName, metav1.GetOptions{})
	if err := errors.Join(operator.UnlessMissing(roleErr), operator.UnlessMissing(bindingErr)); err != nil {
		return nil, fmt.Errorf("read ClusterRole and ClusterRoleBinding %s: %w", roleName, err)
	}
	if roleErr == nil || bindingErr == nil {
		p.Changes = append(p.Changes, is.revoke())
	}
	return p, nil
}

// importsServed returns an error if the API server does not serve ServiceImports in the
// version that CoreDNS reads.
func importsServed(ctx context.Context, c *client.Client) error {
	_, err := c.Raw(ctx, "/apis/"+mcsv1beta1.GroupName+"/v1alpha1")
	if apierrors.IsNotFound(err) {
		return errors.New("the cluster has no ServiceImports, and CoreDNS waits for them when it starts; install Strait first, with the chart's value services.installCRDs")
	}
	return err
}

// configure returns the change that makes CoreDNS serve the zone: a server block where the
// distribution provides for it, otherwise an edit of the Corefile.
func (c *CoreDNS) configure() (Change, error) {
	if c.custom != nil {
		return c.addCustom()
	}
	text, err := Configure(c.text())
	if err != nil {
		return Change{}, fmt.Errorf("%s: %s: %w", objectOf(c.corefile), c.key, err)
	}
	return c.write(text), nil
}

// write returns the change of the Corefile. Another change of the ConfigMap in the meantime
// is a conflict.
func (c *CoreDNS) write(text string) Change {
	object := objectOf(c.corefile)
	return Change{Object: object, Diff: diff(object+" "+c.key, c.text(), text), apply: func(ctx context.Context, to *client.Client) error {
		changed := c.corefile.DeepCopy()
		changed.Data[c.key] = text
		return update(ctx, to, changed)
	}}
}

// addCustom returns the change that adds a server block in a file of its own.
func (c *CoreDNS) addCustom() (Change, error) {
	parsed, err := parseFree(c.text())
	if err != nil {
		return Change{}, fmt.Errorf("%s: %s: %w", objectOf(c.corefile), c.key, err)
	}
	for name, text := range c.custom.Data {
		if path.Ext(name) != path.Ext(customKey) {
			continue
		}
		if _, err := parseFree(text); err != nil {
			return Change{}, fmt.Errorf("%s: %s: %w", objectOf(c.custom), name, err)
		}
	}
	text := serverBlockText(defaultPort)
	if slices.ContainsFunc(parsed.blocks, func(b serverBlock) bool { return len(b.kubernetes()) > 0 }) {
		if text, err = parsed.ownServerBlock(); err != nil {
			return Change{}, fmt.Errorf("%s: %s: %w", objectOf(c.corefile), c.key, err)
		}
	}
	object := objectOf(c.custom)
	return Change{Object: object, Diff: diff(object+" "+customKey, c.custom.Data[customKey], text), apply: func(ctx context.Context, to *client.Client) error {
		changed := c.custom.DeepCopy()
		if changed.Data == nil {
			changed.Data = make(map[string]string)
		}
		changed.Data[customKey] = text
		if changed.UID != "" {
			return update(ctx, to, changed)
		}
		changed.Labels = map[string]string{install.NameLabel: install.Name}
		_, err := to.ConfigMaps(c.Namespace).Create(ctx, changed, metav1.CreateOptions{FieldManager: operator.Manager})
		return err
	}}, nil
}

// removeCustom returns the change that removes the server block, and the ConfigMap if
// addCustom created it.
func (c *CoreDNS) removeCustom() Change {
	object := objectOf(c.custom)
	return Change{Object: object, Diff: diff(object+" "+customKey, c.custom.Data[customKey], ""), apply: func(ctx context.Context, to *client.Client) error {
		changed := c.custom.DeepCopy()
		delete(changed.Data, customKey)
		if len(changed.Data)+len(changed.BinaryData) > 0 || changed.Labels[install.NameLabel] != install.Name {
			return update(ctx, to, changed)
		}
		precondition := metav1.NewPreconditionDeleteOptions(string(changed.UID))
		precondition.Preconditions.ResourceVersion = &changed.ResourceVersion
		return operator.UnlessMissing(to.ConfigMaps(c.Namespace).Delete(ctx, changed.Name, *precondition))
	}}
}

// parseFree is parse of a text in which nothing else serves the zone.
func parseFree(text string) (*corefile, error) {
	c, err := parse(text)
	if err == nil {
		err = c.conflict()
	}
	return c, err
}

// objectOf names a ConfigMap.
func objectOf(m *corev1.ConfigMap) string { return "ConfigMap " + m.Namespace + "/" + m.Name }

func update(ctx context.Context, c *client.Client, m *corev1.ConfigMap) error {
	_, err := c.ConfigMaps(m.Namespace).Update(ctx, m, metav1.UpdateOptions{FieldManager: operator.Manager})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w; run the command again", err)
	}
	return err
}

// grant returns the change that permits CoreDNS to read ServiceImports.
func (c *CoreDNS) grant() Change {
	labels := map[string]string{install.NameLabel: install.Name}
	return Change{
		Object: "ClusterRole and ClusterRoleBinding " + roleName,
		Diff:   fmt.Sprintf("+ ServiceAccount %s/%s may list and watch %s.%s\n", c.Namespace, c.Account, imports, mcsv1beta1.GroupName),
		apply: func(ctx context.Context, to *client.Client) error {
			_, err := to.ClusterRoles().Apply(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: roleName, Labels: labels},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{mcsv1beta1.GroupName}, Resources: []string{imports}, Verbs: []string{"list", "watch"}}},
			}, operator.Manager)
			if err != nil {
				return err
			}
			_, err = to.ClusterRoleBindings().Apply(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: roleName, Labels: labels},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.Account}},
			}, operator.Manager)
			return err
		},
	}
}

// revoke returns the change that reverts grant.
func (c *CoreDNS) revoke() Change {
	return Change{
		Object: "ClusterRole and ClusterRoleBinding " + roleName,
		Diff:   fmt.Sprintf("- ServiceAccount %s/%s may list and watch %s.%s\n", c.Namespace, c.Account, imports, mcsv1beta1.GroupName),
		apply: func(ctx context.Context, to *client.Client) error {
			return errors.Join(
				operator.UnlessMissing(to.ClusterRoleBindings().Delete(ctx, roleName, metav1.DeleteOptions{})),
				operator.UnlessMissing(to.ClusterRoles().Delete(ctx, roleName, metav1.DeleteOptions{})))
		},
	}
}
