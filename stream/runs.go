package stream

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// Runs follows the runs of a partition that ingest writes to: their markers, and when the
// last record of each was seen, so that a run from which no more records come can be
// ended. It is a fold of the partition's records. The zero value is ready to use.
type Runs struct {
	Markers
	activity map[string]*runActivity
	version  uint64 // of activity
}

// runActivity is when the last record of a run was seen.
type runActivity struct {
	lastOffset, lastMS int64 // of its newest record
	// active states that a record came after the run's end, or that the run has not
	// ended: it has to end some day.
	active bool
}

// Touch notes that a record names a run.
func (r *Runs) Touch(run string, rec Record) {
	a := r.activity[run]
	if a == nil {
		if r.activity == nil {
			r.activity = make(map[string]*runActivity)
		}
		a = new(runActivity)
		r.activity[run] = a
	}
	a.lastOffset, a.lastMS, a.active = rec.Offset, max(a.lastMS, rec.Time.UnixMilli()), true
	r.version++
}

// Active reports whether a run has to end some day: it has not ended, or a record came after its end.
func (r *Runs) Active(run string) bool {
	a := r.activity[run]
	return a != nil && a.active
}

// Begin takes a start marker.
func (r *Runs) Begin(mk *streampb.Marker, rec Record) error {
	if _, err := r.Start(mk); err != nil {
		return err
	}
	r.Touch(mk.GetRun().GetId(), rec)
	return nil
}

// Finish takes an end marker and reports whether all sources have ended the run now. One
// that was sent again ends again, which lets the reads that came late count. An end by
// timeout is void if the run has gone on, or ended, since it was written.
func (r *Runs) Finish(mk *streampb.Marker, rec Record) (ended bool, err error) {
	id := mk.GetRun().GetId()
	timeout := mk.GetEndStatus() == streampb.EndStatus_END_STATUS_TIMEOUT
	if a := r.activity[id]; timeout && (a == nil || !a.active || a.lastOffset != mk.GetLastOffset()) {
		return false, nil
	}
	if _, err := r.End(mk); err != nil {
		return false, err
	}
	if !timeout { // several sources may time out with one last record
		r.Touch(id, rec)
	}
	if !r.Ended(id) {
		return false, nil
	}
	if a := r.activity[id]; a != nil {
		a.active = false
		r.version++
	}
	return true, nil
}

// idle lists the end markers that are due, because no record of a run was seen for so
// long: in order of the runs' ids, one for each source that has not ended its run. A run
// that came back after its end has one.
func (r *Runs) idle(nowMS, timeoutMS int64) []*streampb.Marker {
	var ids []string
	for id, a := range r.activity {
		if a.active && nowMS-a.lastMS > timeoutMS {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, strings.Compare)
	var due []*streampb.Marker
	for _, id := range ids {
		sources, missing := r.Missing(id)
		if len(missing) == 0 {
			missing = []uint32{0}
		}
		for _, source := range missing {
			due = append(due, &streampb.Marker{
				Run: r.Run(id), Source: source, Sources: sources,
				EndStatus: streampb.EndStatus_END_STATUS_TIMEOUT, LastOffset: r.activity[id].lastOffset,
			})
		}
	}
	return due
}

// EndingOut is the record that reports to the topic of runs how a run ended. All
// partitions end the run; one of the n writes the record, and the others get nothing.
func (r *Runs) EndingOut(topic string, run *streampb.Run, partition, n int32) ([]Out, error) {
	key := []byte(run.GetId())
	if PartitionFor(key, n) != partition {
		return nil, nil
	}
	ended := proto.CloneOf(run)
	ended.EndStatus = r.EndStatus(run.GetId())
	value, err := EncodeRun(ended)
	if err != nil {
		return nil, err
	}
	return []Out{{Topic: topic, Partition: AnyPartition, Key: key, Value: value}}, nil
}

// RunsSection is the name of a state's section that holds when the last record of each run was seen.
const RunsSection = "runs"

const (
	runsVersion = 1
	maxRuns     = 1 << 20
	leastRun    = 4 // bytes of a run: at least
)

// ActivityVersion changes whenever what AppendActivity appends may have.
func (r *Runs) ActivityVersion() uint64 { return r.version }

// AppendActivity appends when the last record of each run was seen, in the form of snapshots.
func (r *Runs) AppendActivity(b []byte) []byte {
	b = packed.AppendLen(append(b, runsVersion), len(r.activity))
	for _, id := range slices.Sorted(maps.Keys(r.activity)) {
		a := r.activity[id]
		b = packed.AppendBytes(b, id)
		b = packed.AppendInt(b, a.lastOffset)
		b = packed.AppendInt(b, a.lastMS)
		b = packed.AppendBool(b, a.active)
	}
	return b
}

// RestoreActivity gives back what AppendActivity has appended.
func (r *Runs) RestoreActivity(b []byte) error {
	in := packed.NewReader(b)
	in.Version(runsVersion)
	n := in.Count(leastRun)
	if n > maxRuns {
		in.Fail("%d runs", n)
	}
	activity := make(map[string]*runActivity)
	last := ""
	for i := 0; i < n && in.Err() == nil; i++ {
		id := in.String(maxName)
		activity[id] = &runActivity{lastOffset: in.Int(), lastMS: in.Int(), active: in.Bool()}
		if i > 0 && id <= last {
			in.Fail("run %q behind run %q", id, last)
		}
		last = id
	}
	if err := in.Done(); err != nil {
		return fmt.Errorf("restoring runs: %w", err)
	}
	r.activity = activity
	r.version++
	return nil
}

// RunTimeouts ends runs of which nothing has come for too long, by markers in their own
// partition, so that the result stays a function of its records.
type RunTimeouts struct {
	Runs      *Runs
	Topic     string // that the partition is of
	Partition int32
	Encode    func(mk *streampb.Marker, end bool) ([]byte, error) // of a marker of the topic
	Timeout   time.Duration
	OnTimeout func() // called for each run that timed out
	Logger    *slog.Logger

	ended map[string]int64 // runs that were ended, by the offset that it was done behind
}

// Tick is that of a [Ticker].
func (t *RunTimeouts) Tick(ctx context.Context, now time.Time, emit Emitter) error {
	var outs []Out
	due := make(map[string]int64)
	for _, mk := range t.Runs.idle(now.UnixMilli(), t.Timeout.Milliseconds()) {
		run := mk.GetRun().GetId()
		if offset, written := t.ended[run]; written && offset == mk.GetLastOffset() {
			continue // on its way through the log
		}
		value, err := t.Encode(mk, true)
		if err != nil {
			return err
		}
		outs = append(outs, Out{Topic: t.Topic, Partition: t.Partition, Key: MarkerKey(mk, true), Value: value})
		due[run] = mk.GetLastOffset()
	}
	if len(outs) == 0 {
		return nil
	}
	if err := emit.Emit(ctx, outs, nil); err != nil {
		return err
	}
	if t.ended == nil {
		t.ended = make(map[string]int64)
	}
	for run, offset := range due {
		t.ended[run] = offset
		t.OnTimeout()
		t.Logger.Warn("run is ended: nothing of it has come for too long", "run", run, "timeout", t.Timeout, "last_offset", offset)
	}
	return nil
}

// Forget removes a run that has ended, for whatever reason.
func (t *RunTimeouts) Forget(run string) { delete(t.ended, run) }
