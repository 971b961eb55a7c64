package simulation

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/porestream/porestream/inorder"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/pod5"
	"github.com/porestream/porestream/wholefile"
)

// maxAhead bounds the samples of reads that are made ahead of the one that is written.
const maxAhead = 64 << 20

// WritePOD5 writes the run's reads to a file, in the order in which they begin; made by
// as many workers, 0: as there are processors. The bytes depend on the run and on
// software, which the file names, alone. The file appears, or replaces one of its name,
// when it is whole. written, if not nil, counts samples.
func (s *Simulated) WritePOD5(ctx context.Context, path, software string, workers int, written *atomic.Int64) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for the reads: %w", err)
	}
	file, err := wholefile.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Discard() }() // of no consequence once it is committed
	signal, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer os.Remove(signal.Name())
	defer signal.Close()
	w, err := pod5.NewWriter(file, signal, pod5.WriterOptions{Software: software, Identifier: s.FileID()})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := s.writeReads(ctx, w, workers, written); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Commit()
}

// writeReads makes reads with several workers, and adds them in order.
func (s *Simulated) writeReads(ctx context.Context, w *pod5.Writer, workers int, written *atomic.Int64) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	info := runInfo(s.Runs()[0])
	type made struct {
		read    int
		samples []int16
	}
	spare := make(chan []int16, 4*workers)
	ahead := newBudget(maxAhead)
	plan := func(ctx context.Context, emit func(*made) error) error {
		for i := range s.Len() {
			if err := ahead.take(ctx, s.Entry(i).NumSamples); err != nil {
				return err
			}
			if err := emit(&made{read: i}); err != nil {
				return err
			}
		}
		return nil
	}
	work := func(_ int, reads iter.Seq[*made]) error {
		for m := range reads {
			var buf []int16
			select {
			case buf = <-spare:
			default:
			}
			var err error
			if m.samples, err = s.Samples(m.read, buf[:0]); err != nil {
				return err
			}
		}
		return nil
	}
	return inorder.Do(ctx, workers, plan, work, func(m *made) error {
		e := s.Entry(m.read)
		if err := w.Add(recordOf(&e, s.ID(m.read), info), m.samples); err != nil {
			return err
		}
		ahead.give(len(m.samples))
		if written != nil {
			written.Add(int64(len(m.samples)))
		}
		select {
		case spare <- m.samples:
		default:
		}
		return nil
	})
}

// recordOf is a read as POD5 has it.
func recordOf(e *signal.Read, id [16]byte, info *pod5.RunInfo) *pod5.Read {
	same := pod5.Scaling{Scale: 1}
	return &pod5.Read{
		ID: id, Run: info, Channel: e.Channel, Well: e.Well, PoreType: e.PoreType, Number: e.Number, Start: e.StartSample,
		EndReason: e.EndReason.String(), EndReasonForced: e.EndReasonForced,
		CalibrationOffset: e.Calibration.Offset, CalibrationScale: e.Calibration.Scale,
		MedianBefore: e.MedianBefore, OpenPoreLevel: e.OpenPoreLevel, ExpectedOpenPoreLevel: e.OpenPoreLevel, SelectedReadLevel: e.OpenPoreLevel,
		MinKNOWEvents: e.MinKNOWEvents, TrackedScaling: same, PredictedScaling: same,
	}
}

func runInfo(r *signal.Run) *pod5.RunInfo {
	return &pod5.RunInfo{
		AcquisitionID: r.ID, AcquisitionStartTime: r.StartTime, ADCMin: int16(r.ADCMin), ADCMax: int16(r.ADCMax),
		ContextTags: r.Context, ExperimentName: r.ExperimentID, FlowCellID: r.FlowCellID, FlowCellProductCode: r.FlowCellProduct,
		ProtocolName: r.ProtocolName, ProtocolRunID: r.ProtocolRunID, ProtocolStartTime: r.StartTime, SampleID: r.SampleID,
		SampleRate: uint16(r.SampleRate), SequencingKit: r.Kit, SequencerPosition: r.SequencerPosition, SequencerPositionType: r.SequencerType,
		Software: r.Software, SystemName: r.Device, SystemType: "simulator", TrackingID: r.Tracking,
	}
}

// budget bounds what is taken and not given back yet. What is more than all of it is
// taken when nothing else is out.
type budget struct {
	most   int
	out    atomic.Int64
	change chan struct{}
}

func newBudget(most int) *budget { return &budget{most: most, change: make(chan struct{}, 1)} }

// take is called by one goroutine.
func (b *budget) take(ctx context.Context, n int) error {
	for out := b.out.Load(); out > 0 && out+int64(n) > int64(b.most); out = b.out.Load() {
		select {
		case <-b.change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.out.Add(int64(n))
	return nil
}

func (b *budget) give(n int) {
	b.out.Add(-int64(n))
	select {
	case b.change <- struct{}{}:
	default:
	}
}
