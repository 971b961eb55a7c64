package pod5

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/porestream/porestream/signal/internal/mapped"
	"github.com/porestream/porestream/signal/internal/text"
)

// Read is one row of the reads table.
type Read struct {
	ID  [16]byte // UUID
	Run *RunInfo // shared by the reads of a run
	// Rows are the rows of the signal table that hold the read's samples, in
	// order.
	Rows []uint64

	Channel   uint32
	Well      uint8
	PoreType  string
	Number    uint32
	Start     uint64 // samples after the start of the acquisition
	Samples   uint64 // number of samples
	EndReason string // as written; empty when not recorded
	// EndReasonForced reports whether the sequencer ended the read, rather than the
	// read by itself.
	EndReasonForced   bool
	CalibrationOffset float32 // ADC levels
	CalibrationScale  float32 // picoamperes per level
	MedianBefore      float32 // picoamperes; NaN when not recorded
	OpenPoreLevel     float32 // picoamperes; NaN when not recorded
	MinKNOWEvents     uint64  // 0 when not recorded

	// What follows is passed on but not used here; NaN or 0 when not recorded.
	TrackedScaling, PredictedScaling Scaling
	ReadsSinceMuxChange              uint32
	TimeSinceMuxChange               float32 // seconds
	ExpectedOpenPoreLevel            float32 // picoamperes
	SelectedReadLevel                float32 // picoamperes
}

// Scaling is a normalisation that the recorder found for a read.
type Scaling struct{ Shift, Scale float32 }

// Reader reads a POD5 file. Its methods may be called from several goroutines at
// once.
type Reader struct {
	mapping  *mapped.File   // nil for a Reader over bytes in memory
	mappings []*mapped.File // of an unfinished file, mapping included

	footer  footer
	reads   *table
	columns columns
	runs    *runTable // nil for versions 0 to 2

	signal signalTableReader

	mu         sync.Mutex
	structRuns map[int]*RunInfo // versions 0 to 2: by dictionary index
}

// Open opens the POD5 file at path. Errors, here and from the methods, don't name
// the path.
func Open(path string) (*Reader, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{mapping: m}
	if err := m.Do(func() error { return r.init(m.Bytes()) }); err != nil {
		m.Close()
		return nil, err
	}
	return r, nil
}

// NewReader reads a POD5 file that is in memory. The bytes must not change while
// the Reader is in use.
func NewReader(file []byte) (*Reader, error) {
	r := new(Reader)
	if err := r.init(file); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) init(file []byte) (err error) {
	if r.footer, err = readFooter(file); err != nil {
		return err
	}
	if r.reads, err = openTable(readsTable, file, r.footer.tables[readsTable], false); err != nil {
		return err
	}
	signal, err := openTable(signalTable, file, r.footer.tables[signalTable], true)
	if err != nil {
		return err
	}
	s, ok := r.footer.tables[runInfoTable]
	if !ok {
		return r.bind(signal, nil)
	}
	runs, err := openTable(runInfoTable, file, s, true)
	if err != nil {
		return err
	}
	return r.bind(signal, runs)
}

// bind makes the reader of the reads table and the others. runs may be nil.
func (r *Reader) bind(signal, runs *table) (err error) {
	tables := []*table{r.reads, signal}
	if runs != nil {
		tables = append(tables, runs)
		if r.runs, err = readRunInfoTable(runs); err != nil {
			return err
		}
	}
	for _, t := range tables {
		id := t.metadata("MINKNOW:file_identifier")
		if id != "" && id != r.footer.fileIdentifier {
			return fmt.Errorf("%s: belongs to file %q, but the footer to file %q", t.what, id, r.footer.fileIdentifier)
		}
	}
	if r.columns, err = findColumns(r.reads); err != nil {
		return err
	}
	if r.columns.flat && r.runs == nil {
		return errors.New("footer: lists no run info table")
	}
	r.structRuns = make(map[int]*RunInfo)
	return r.signal.init(signal)
}

// Version returns the version of the POD5 library that wrote the file.
func (r *Reader) Version() string { return r.footer.version }

// Software returns the name of the program that wrote the file.
func (r *Reader) Software() string { return r.footer.software }

// Identifier returns the UUID that distinguishes the file from all others.
func (r *Reader) Identifier() string { return r.footer.fileIdentifier }

// Batches returns the number of record batches of the reads table.
func (r *Reader) Batches() int { return r.reads.batches() }

// Close releases the file. No other method may be under way or follow.
func (r *Reader) Close() error {
	if r.mappings != nil {
		var err error
		for _, m := range r.mappings {
			err = errors.Join(err, m.Close())
		}
		return err
	}
	return r.mapping.Close()
}

// Batch returns the reads of record batch i, 0 <= i < Batches().
func (r *Reader) Batch(i int) (reads []Read, err error) {
	err = r.mapping.Do(func() error {
		return r.reads.batch(i, func(b arrow.RecordBatch) error {
			reads, err = r.batchReads(b)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("%s: batch %d: %w", r.reads.what, i, err)
	}
	return reads, nil
}

// batchReads decodes the rows of a record batch.
func (r *Reader) batchReads(b arrow.RecordBatch) ([]Read, error) {
	c, err := r.columns.bind(b)
	if err != nil {
		return nil, err
	}
	reads := make([]Read, b.NumRows())
	rows := make([]uint64, 0, len(reads))
	for i := range reads {
		rd := &reads[i]
		if rows, err = c.read(rd, i, rows); err == nil {
			rd.Run, err = r.run(c, i)
		}
		if err == nil && !c.hasSamples {
			rd.Samples, err = r.signal.count(rd.Rows)
		}
		if err == nil {
			err = rd.check()
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return reads, nil
}

// check refuses values that no recording can have.
func (rd *Read) check() error {
	finite := func(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }
	switch {
	case !finite(rd.CalibrationOffset):
		return fmt.Errorf("calibration offset is %v", rd.CalibrationOffset)
	case !finite(rd.CalibrationScale):
		return fmt.Errorf("calibration scale is %v", rd.CalibrationScale)
	case rd.Samples > 0 && len(rd.Rows) == 0:
		return fmt.Errorf("field %q is empty, but the read has %d samples", "signal", rd.Samples)
	case rd.Samples > math.MaxInt64:
		return fmt.Errorf("field %q is %d", "num_samples", rd.Samples)
	}
	return nil
}

// run returns the run of row i.
func (r *Reader) run(c *boundColumns, i int) (*RunInfo, error) {
	if c.runInfo.IsNull(i) {
		return nil, fmt.Errorf("field %q is null", "run_info")
	}
	k := c.runInfo.GetValueIndex(i)
	if k < 0 || k >= c.runInfo.Dictionary().Len() {
		return nil, fmt.Errorf("field %q is entry %d of %d", "run_info", k, c.runInfo.Dictionary().Len())
	}
	if c.flat {
		id, err := textAt(c.runInfo.Dictionary(), k)
		if err != nil {
			return nil, fmt.Errorf("field %q %w", "run_info", err)
		}
		run, err := r.runs.of(id, k, c.runInfo.Dictionary().Len())
		if err != nil {
			return nil, fmt.Errorf("field %q %w", "run_info", err)
		}
		if run == nil {
			return nil, fmt.Errorf("field %q is %q, which the run info table doesn't have", "run_info", text.Clip(id))
		}
		return run, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, ok := r.structRuns[k]; ok {
		return run, nil
	}
	run, err := structRun(c.runInfo.Dictionary().(*array.Struct), k)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", "run_info", err)
	}
	r.structRuns[k] = run
	return run, nil
}

func structRun(s *array.Struct, row int) (*RunInfo, error) {
	typ := s.DataType().(*arrow.StructType)
	return runInfoAt(runFields(), func(name string) (arrow.Array, error) {
		i, ok := typ.FieldIdx(name)
		if !ok {
			return nil, fmt.Errorf("field %q is missing", name)
		}
		return storage(s.Field(i)), nil
	}, row)
}

// Samples appends the samples of a read to dst. rd must come from this Reader.
func (r *Reader) Samples(rd *Read, dst []int16) ([]int16, error) {
	return r.SamplesAt(rd.ID, rd.Rows, rd.Samples, dst)
}

// SamplesAt appends to dst the samples in the given rows of the signal table,
// which must belong to read id and hold n samples together. On an error it returns
// dst unchanged.
func (r *Reader) SamplesAt(id [16]byte, rows []uint64, n uint64, dst []int16) (out []int16, err error) {
	out = dst
	err = r.mapping.Do(func() error {
		out, err = r.signal.read(id, rows, n, dst)
		return err
	})
	r.mapping.Used(2 * (len(out) - len(dst))) // packed, they are fewer
	if err != nil {
		return dst, fmt.Errorf("%s: %w", signalTable, err)
	}
	return out, nil
}
