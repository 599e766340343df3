package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/smallfile"
)

// Signals control Run.
type Signals struct {
	Reload <-chan os.Signal // read the file again now
	Stop   <-chan os.Signal // drain and stop; a second one stops at once
}

// Run is file mode: it runs a gateway with the configuration in a file, and reloads it when the file changes. It returns on Stop,
// or with an error at the start; later errors do not end it.
func Run(path string, signals Signals, o Options) error {
	log := o.Log
	changes := make(chan struct{}, 1)
	watching := &watch{changes: changes, log: log}
	defer watching.end()
	load := func() (*config.Gateway, error) {
		read := fingerprint([]string{path}) // before the files are read, so that no later change is missed
		c, err := Load(path)
		if err == nil { // even if it cannot be applied: a key file that it names may not exist yet
			files := watchedFiles(path, c)
			watching.follow(files, read+fingerprint(files[1:]))
		}
		return c, err
	}
	c, err := load()
	if err != nil {
		return err
	}
	var p *Process
	if err := patiently(signals.Stop, log, func() (err error) { p, err = Open(c.Observability.Listen, o); return err }); err != nil {
		return err
	}
	defer p.Close()
	if err := patiently(signals.Stop, log, func() error { return p.Start(c) }); err != nil {
		return err
	}

	for {
		select {
		case <-changes:
		case <-signals.Reload:
		case <-signals.Stop:
			p.Drain(signals.Stop, Drain)
			return nil
		}
		_ = p.Reload(load, nil) // logs errors itself
	}
}

// patiently retries a start that fails because an address is in use: the gateway that this one replaces may still be draining.
func patiently(stop <-chan os.Signal, log *slog.Logger, start func() error) error {
	told := false
	for deadline := time.Now().Add(3 * Drain); ; {
		err := start()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
		if !told {
			log.Info("waiting for an address that is in use", "error", err)
			told = true
		}
		select {
		case <-time.After(Drain / 10):
		case <-stop:
			return err
		}
	}
}

// Load reads and validates a configuration file. Errors contain the file, the line and the field.
func Load(path string) (*config.Gateway, error) {
	data, err := smallfile.Read(path, smallfile.Configuration)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("no configuration at %s; name one with --config FILE", path)
		}
		return nil, wrongFile(err, "--config "+path, "name the configuration file")
	}
	c, err := config.Parse(data)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, config.WithFile(path, err)
	}
	return c, nil
}

// wrongFile adds the remedy to an error of reading a directory or a file that is too large.
func wrongFile(err error, name, remedy string) error {
	var large *smallfile.TooLargeError
	switch {
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s is a directory; %s", name, remedy)
	case errors.As(err, &large):
		return fmt.Errorf("%s is %w; %s", name, large, remedy)
	}
	return err
}
