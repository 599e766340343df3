package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
)

// Schema is the version of the JSON form of a Summary. Fields may be added; changes and
// removals get a new number.
const Schema = "strait.dev/gather/1"

// Options configure a support bundle. All are required, except Say.
type Options struct {
	Namespaces []string // of Strait: the controller's, the gateways', the helpers'
	Since      time.Duration
	MaxSize    int64 // of the archive in bytes, without the index and the summary
	Strait     any   // version of this program, for the summary
	Now        time.Time
	Root       string            // directory in the archive
	Say        func(line string) // progress; nil: not reported
}

// Summary describes the content of an archive and what is missing.
type Summary struct {
	Schema   string    `json:"schema"`
	Taken    time.Time `json:"taken"`
	Strait   any       `json:"strait"`
	Clusters []Cluster `json:"clusters"`
}

// Cluster describes the data of one cluster.
type Cluster struct {
	Name     string           `json:"name"`             // like "context a"
	Folder   string           `json:"folder"`           // of its files
	Status   *operator.Report `json:"status,omitempty"` // omitted if it could not be read
	Files    []string         `json:"files"`
	Missing  []Missing        `json:"missing"`
	Notes    []string         `json:"notes,omitempty"`
	Redacted int64            `json:"redacted"` // number of redacted secrets
}

// Missing is data that could not be read.
type Missing struct {
	What  string `json:"what"` // name of the missing file
	Error string `json:"error"`
}

// site is the state of reading one cluster.
type site struct {
	operator.Cluster
	archive      *archive
	scanner      *scanner
	since        time.Duration
	gatewayNodes map[string]bool
	progress     func(line string)
	exec         operator.Exec
	logs         func(ctx context.Context, namespace, pod, container string, o corev1.PodLogOptions) (io.ReadCloser, error)

	mu sync.Mutex
	is Cluster
}

// Run writes an archive with the state of some clusters. Read errors are in the summary; an
// error is returned if writing failed or ctx ended: then the archive is not usable.
func Run(ctx context.Context, to io.Writer, clusters []operator.Cluster, o Options) (*Summary, error) {
	return run(ctx, to, clusters, o, func(s *site) { s.exec, s.logs = s.Client.Exec, s.Client.Logs })
}

func run(ctx context.Context, to io.Writer, clusters []operator.Cluster, o Options, connect func(*site)) (*Summary, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	a := &archive{root: o.Root, now: o.Now, limit: o.MaxSize, to: to}
	summary := &Summary{Schema: Schema, Taken: o.Now.UTC().Truncate(time.Second), Strait: o.Strait}
	for i, c := range clusters {
		s := &site{Cluster: c, archive: a, scanner: &scanner{}, since: o.Since, gatewayNodes: map[string]bool{}, progress: o.Say}
		s.is = Cluster{Name: c.Name, Folder: folder(c.Name, i), Files: []string{}, Missing: []Missing{}}
		connect(s)
		s.gather(ctx, o.Namespaces)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.is.Redacted = s.scanner.found.Load()
		slices.Sort(s.is.Files)
		slices.SortFunc(s.is.Missing, func(a, b Missing) int { return strings.Compare(a.What, b.What) })
		summary.Clusters = append(summary.Clusters, s.is)
	}
	text, err := json.MarshalIndent(summary, "", "  ")
	if err != nil {
		return nil, err
	}
	page, err := index(summary)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.add("summary.json", append(text, '\n'), true), a.add("index.html", page, true), a.end()); err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	return summary, nil
}

var notInNames = regexp.MustCompile(`[^0-9A-Za-z.-]+`)

// folder returns a directory name for the files of a cluster.
func folder(name string, number int) string {
	name = strings.Trim(notInNames.ReplaceAllString(strings.TrimPrefix(name, "context "), "-"), ".-")
	return fmt.Sprintf("%d-%.60s", number+1, name)
}

// gather reads a cluster. Secrets are read first, because their contents must be redacted,
// then Peerings, whose keys are public; logs are read last, because they are long.
func (s *site) gather(ctx context.Context, namespaces []string) {
	if err := s.Reach(ctx); err != nil {
		s.recordMissing("everything", err)
		return
	}
	namespaces = append(namespaces[:len(namespaces):len(namespaces)], s.agentNamespace(ctx)...)
	for i, name := range namespaces {
		if !slices.Contains(namespaces[:i], name) {
			s.secrets(ctx, name)
		}
	}
	peerings, nodes := s.strait(ctx)
	s.status(ctx)
	s.kubernetes(ctx)
	s.services(ctx)
	s.offloaded(ctx, peerings)
	var pods []*corev1.Pod
	for i, name := range namespaces {
		if !slices.Contains(namespaces[:i], name) {
			pods = append(pods, s.namespace(ctx, name)...)
		}
	}
	read(ctx, s, "default/events.yaml", s.Client.Events("default"), func(o *corev1.Event) any {
		if notOurs(o) {
			return nil
		}
		return s.event(o)
	})
	s.askPods(ctx, slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.Labels[install.NameLabel] != install.Name }), nodes)
}

// notOurs reports whether a cluster-scoped event is about an unrelated object.
func notOurs(e *corev1.Event) bool {
	return !strings.HasPrefix(e.InvolvedObject.APIVersion, v1alpha1.GroupVersion.Group+"/") && e.InvolvedObject.Kind != "Node"
}

func (s *site) event(e *corev1.Event) any {
	e.Message = string(s.scanner.redactText([]byte(e.Message)))
	return allowEvent(*e)
}

func (s *site) status(ctx context.Context) {
	report, err := operator.ReadReport(ctx, s.Cluster, nil)
	if err == nil {
		report, err = s.withoutSecrets(report)
	}
	if err != nil {
		s.recordMissing("status.json", err)
		return
	}
	s.is.Status = report
	s.json("status.json", report)
	var text strings.Builder
	if err := operator.Table(&text, report, s.archive.now, false); err != nil {
		s.recordMissing("status.txt", err)
		return
	}
	s.put("status.txt", []byte(text.String()))
}

// withoutSecrets redacts a report, which the summary and the index contain too.
func (s *site) withoutSecrets(r *operator.Report) (is *operator.Report, err error) {
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(s.scanner.redact(text), &is)
	}
	return is, err
}

// put adds a file. It is safe for concurrent use, like recordMissing and note.
func (s *site) put(file string, text []byte) {
	if err := s.archive.add(s.is.Folder+"/"+file, text, false); err != nil {
		s.recordMissing(file, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is.Files = append(s.is.Files, file)
}

// recordMissing records data that could not be read.
func (s *site) recordMissing(file string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is.Missing = append(s.is.Missing, Missing{file, string(s.scanner.redactText([]byte(err.Error())))})
}

func (s *site) note(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is.Notes = append(s.is.Notes, fmt.Sprintf(format, values...))
}

func (s *site) say(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress(fmt.Sprintf(format, values...))
}
