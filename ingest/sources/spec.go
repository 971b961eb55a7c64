package sources

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"github.com/porestream/porestream/ingest"
)

// Spec is one source of a list.
type Spec struct {
	// Name distinguishes the source from the others of the list.
	Name string
	Kind string
	// Settings are the source's settings, written so that sources of the same name
	// are the same exactly if their settings are.
	Settings string
	// Claims are what no other source may have at the same time.
	Claims []Claim
	// Run takes signal until ctx ends, which is the order to stop in order, or there
	// is no more. It calls ready, once or more, when it has got everything that it
	// needs to begin with.
	Run func(ctx context.Context, ready func()) error
	// Figures returns the source's figures, over all of its starts; nil: it has none.
	Figures func() ingest.Figures
}

// same reports whether a source need not be stopped for another of its name.
func (s *Spec) same(other *Spec) bool { return s.Kind == other.Kind && s.Settings == other.Settings }

// Claim is something that one source at a time may have.
type Claim struct {
	What  string // Folder, Position or Address
	Value string
}

// What can be claimed.
const (
	// Folder is a folder with everything below it, or a file: an absolute path.
	Folder = "folder"
	// Position is a flow cell position, HOST:PORT/POSITION, or all of a host,
	// HOST:PORT.
	Position = "position"
	// Address is a TCP address to listen on.
	Address = "address"
)

// FolderClaim claims a file or folder, by whatever name it goes.
func FolderClaim(path string) (Claim, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Claim{}, fmt.Errorf("finding %s: %w", path, err)
	}
	// What is not there yet may become a link; its folders are what counts.
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return Claim{Folder, filepath.Join(real, rest)}, nil
		}
		if at == filepath.Dir(at) {
			return Claim{Folder, abs}, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// conflicts reports whether two claims can't be met at the same time.
func (c Claim) conflicts(other Claim) bool {
	if c.What != other.What {
		return false
	}
	switch c.What {
	case Folder, Position:
		return within(c.Value, other.Value) || within(other.Value, c.Value)
	case Address:
		return sameAddress(c.Value, other.Value)
	}
	return c.Value == other.Value
}

// within reports whether a path is another or lies below it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// sameAddress reports whether two listeners would meet. Port 0 is any free one.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return a == b
	}
	if portA != portB || portA == "0" {
		return false
	}
	return canonicalHost(hostA) == canonicalHost(hostB) || isWildcard(hostA) || isWildcard(hostB)
}

func canonicalHost(host string) string {
	if host == "localhost" {
		return "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.String()
	}
	return strings.ToLower(host)
}

func isWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func (c Claim) String() string { return c.What + " " + c.Value }

// conflict returns the first claims of two sources that can't be met at the same
// time.
func conflict(a, b []Claim) (Claim, Claim, bool) {
	for _, x := range a {
		for _, y := range b {
			if x.conflicts(y) {
				return x, y, true
			}
		}
	}
	return Claim{}, Claim{}, false
}

// ConflictError says that two sources of a list can't be run together.
type ConflictError struct {
	First, Second string // names; the same if the list has the name twice
	Of, With      Claim
}

func (e *ConflictError) Error() string {
	switch {
	case e.First == e.Second:
		return fmt.Sprintf("source %q is listed twice", e.First)
	case e.Of == e.With:
		return fmt.Sprintf("source %q claims %s, which is that of source %q", e.Second, e.With, e.First)
	}
	return fmt.Sprintf("source %q claims %s, which meets %s of source %q", e.Second, e.With, e.Of, e.First)
}

// Check checks that the sources of a list can be run together; its error is a
// [*ConflictError] of the first two that can't.
func Check(list []Spec) error {
	for i := range list {
		for j := range i {
			if list[i].Name == list[j].Name {
				return &ConflictError{First: list[j].Name, Second: list[i].Name}
			}
			if of, with, met := conflict(list[j].Claims, list[i].Claims); met {
				return &ConflictError{list[j].Name, list[i].Name, of, with}
			}
		}
	}
	return nil
}

// Runs holds which source of a process writes a run, which is known only once the
// source has found it.
type Runs struct {
	mu      sync.Mutex
	writers map[string]string // source by run
}

// Claim makes a run a source's until the source lets go of all that it has.
func (r *Runs) Claim(run, source string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writers == nil {
		r.writers = make(map[string]string)
	}
	if writer, claimed := r.writers[run]; claimed && writer != source {
		return fmt.Errorf("run %s is that of source %q: two sources can't write one run", run, writer)
	}
	r.writers[run] = source
	return nil
}

// Release lets go of a source's runs.
func (r *Runs) Release(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for run, writer := range r.writers {
		if writer == source {
			delete(r.writers, run)
		}
	}
}
