package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"strait.dev/strait/internal/localsocket"
)

// Trace returns what the gateway would do with a packet.
func (d *Daemon) Trace(q localsocket.TraceQuestion, now time.Time) (*localsocket.TraceAnswer, error) {
	a, err := localsocket.TraceTable(d.fabric.Gateway.Tracer(), q, now)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	a.Cluster, a.Remote = d.config.Cluster, d.config.Remote.Cluster
	d.mu.Unlock()
	for _, l := range d.fabric.Status() {
		a.Links = append(a.Links, localsocket.TraceLink{
			Name: l.Name, Gateway: l.Gateway, OwnKey: l.OwnKey.String(), RemoteKey: l.RemoteKey.String(), Active: l.Active, Up: l.Up,
			RTT: l.RTT, PathMTU: l.PathMTU, LastHandshake: l.LastHandshake, Endpoint: l.Endpoint,
		})
	}
	return a, nil
}

// traceLimit is the maximum size of a question in bytes.
const traceLimit = 4096

func serveTrace(d *Daemon, w http.ResponseWriter, r *http.Request) {
	var q localsocket.TraceQuestion
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, traceLimit))
	decoder.DisallowUnknownFields()
	a, err := (*localsocket.TraceAnswer)(nil), decoder.Decode(&q)
	if err != nil {
		err = fmt.Errorf("the question cannot be read: %w; use the strait of the gateway's own version", err)
	} else {
		a, err = d.Trace(q, time.Now())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the client has disconnected
}
