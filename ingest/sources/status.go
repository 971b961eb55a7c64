package sources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/porestream/porestream/ingest"
)

// State is what a source is doing.
type State string

// The states. docs/attach/ingest-sources.md describes what they mean to an operator.
const (
	Starting   State = "starting"    // begun, and not ready
	Running    State = "running"     // takes a run
	Waiting    State = "waiting"     // ready, and there is no run; or not begun, as another has to stop first
	BackingOff State = "backing-off" // has failed, and is started again soon
	Stopping   State = "stopping"    // was asked to stop, and finishes what it has
	Stopped    State = "stopped"     // has come to its end, and all is well
	Failed     State = "failed"      // can't go on until somebody mends it
)

// States are all of them.
func States() []State {
	return []State{Starting, Running, Waiting, BackingOff, Stopping, Stopped, Failed}
}

// Report is what a process says of its sources, as JSON at /status. Fields are
// added, and never removed or given another meaning.
type Report struct {
	Version int       `json:"version"` // 1
	Time    time.Time `json:"time"`
	// File is the one that lists the sources; not there for a single source.
	File    *FileStatus `json:"file,omitempty"`
	Sources []Status    `json:"sources"` // in the file's order, and then those that it doesn't list any more
}

// FileStatus is what has become of the file of sources.
type FileStatus struct {
	Path    string    `json:"path"`
	Loaded  time.Time `json:"loaded"`          // when the list that is in use was read
	Refused int64     `json:"refused"`         // times that a changed file could not be used
	Error   string    `json:"error,omitempty"` // why the file as it is now can't be used
}

// Status is what a process says of a source. Numbers are since the process began.
type Status struct {
	Name  string    `json:"name"`
	Kind  string    `json:"kind"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // of the state
	// Reason is why the source is in its state, where that says something.
	Reason string `json:"reason,omitempty"`
	// RetryAt is when a source that is backing off is started again.
	RetryAt *time.Time `json:"retry_at,omitempty"`
	// Restarts is how often it was started again after it had failed.
	Restarts    int64      `json:"restarts"`
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`

	Runs             int     `json:"runs"`         // under way
	RunsStarted      int64   `json:"runs_started"` // or gone on with
	Channels         int     `json:"channels"`     // of the runs under way that have sent signal
	SamplesPerSecond float64 `json:"samples_per_second"`
	Samples          int64   `json:"samples"`
	Chunks           int64   `json:"chunks"`
	Gaps             int64   `json:"gaps"`        // places within reads where samples are missing
	GapSamples       int64   `json:"gap_samples"` // missing there
	LostSamples      int64   `json:"lost_samples"`
	// Unacknowledged is what of the runs under way is not in Kafka, and
	// OldestSeconds the age of the oldest of it.
	Unacknowledged uint64  `json:"unacknowledged_events"`
	OldestSeconds  float64 `json:"oldest_unacknowledged_seconds"`
}

// put fills in a source's figures.
func (s *Status) put(f ingest.Figures) {
	s.Runs, s.RunsStarted, s.Channels = f.Runs, f.RunsStarted, f.Channels
	s.SamplesPerSecond, s.Samples, s.Chunks = f.SamplesPerSecond, f.Samples, f.Chunks
	s.Gaps, s.GapSamples, s.LostSamples = f.Gaps, f.GapSamples, f.LostSamples
	s.Unacknowledged, s.OldestSeconds = f.Unacknowledged, f.Oldest.Seconds()
}

// NewReport reports on a supervisor's sources, and on the file that lists them; f
// is nil if no file does.
func NewReport(s *Supervisor, f *File) Report {
	r := Report{Version: 1, Time: time.Now(), Sources: s.Status()}
	if f != nil {
		file := f.Status()
		r.File = &file
	}
	return r
}

// Handler answers with the report as JSON.
func Handler(report func() Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(report())
	})
}

// maxReport bounds what is read of a report, in bytes.
const maxReport = 16 << 20

// ReadReport reads what a [Handler] has answered.
func ReadReport(r io.Reader) (Report, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	if err != nil {
		return Report{}, fmt.Errorf("reading the status: %w", err)
	}
	if len(b) > maxReport {
		return Report{}, fmt.Errorf("reading the status: it has more than %d bytes", maxReport)
	}
	var report Report
	if err := json.Unmarshal(b, &report); err != nil {
		return Report{}, fmt.Errorf("reading the status: the answer is not that of an ingest: %w", err)
	}
	if report.Version < 1 {
		return Report{}, fmt.Errorf("reading the status: the answer is not that of an ingest: it has no version")
	}
	return report, nil
}

// WriteText writes a report for people: a line for each source, and below it why
// it is not well, if it isn't.
func (r Report) WriteText(w io.Writer) error {
	if r.File != nil {
		fmt.Fprintf(w, "%s, in use since %s\n", r.File.Path, r.File.Loaded.UTC().Format(time.RFC3339))
		if r.File.Error != "" {
			fmt.Fprintf(w, "as it is now it can't be used: %s\n", r.File.Error)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SOURCE\tKIND\tSTATE\tFOR\tRUNS\tCHANNELS\tSAMPLES/S\tCHUNKS\tGAPS\tLOST\tLAG")
	for _, s := range r.Sources {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%s\n", s.Name, s.Kind, s.State, age(r.Time.Sub(s.Since)), s.Runs, s.Channels,
			strconv.FormatFloat(s.SamplesPerSecond, 'f', 0, 64), s.Chunks, s.Gaps, s.LostSamples, lag(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Sources {
		why := s.Reason
		if s.LastErrorAt != nil && s.LastError != s.Reason {
			why = fmt.Sprintf("%s; last error at %s: %s", cmp.Or(why, "well now"), s.LastErrorAt.UTC().Format(time.RFC3339), s.LastError)
		}
		if s.RetryAt != nil {
			why += fmt.Sprintf(" (started again in %s)", age(s.RetryAt.Sub(r.Time)))
		}
		if why != "" {
			fmt.Fprintf(w, "%s: %s\n", s.Name, why)
		}
	}
	return nil
}

func age(d time.Duration) string {
	return max(0, d).Round(time.Second).String()
}

func lag(s Status) string {
	if s.Unacknowledged == 0 {
		return "-"
	}
	return fmt.Sprintf("%d (%s)", s.Unacknowledged, time.Duration(s.OldestSeconds*float64(time.Second)).Round(100*time.Millisecond))
}
