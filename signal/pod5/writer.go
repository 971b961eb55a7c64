package pod5

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/porestream/porestream/signal/internal/text"
	"github.com/porestream/porestream/signal/internal/uuid"
)

// formatVersion is the version of ONT's library whose tables a Writer makes.
// Readers go by it, so it is not the version of this program.
const formatVersion = "0.3.49"

// chunkSamples is the most samples in one row of the signal table, as in ONT's
// writer.
const chunkSamples = 102_400

// WriterOptions say how a file is written.
type WriterOptions struct {
	// Software is the name and version of the program that writes.
	Software string
	// Uncompressed keeps signal as plain 16-bit integers instead of VBZ.
	Uncompressed bool
	// Identifier names the file, a UUID; zero means a random one.
	Identifier [16]byte
}

// Writer writes a POD5 file in the present shape of the format, from its beginning
// to its end, read by read. It holds at most one batch of signal in memory, some
// ten megabytes; what the reads table needs is kept in a scratch file until all
// signal is written, since the tables lie one behind the other and the reads
// table's dictionaries come before its rows. It is not safe for concurrent use.
type Writer struct {
	out        *bufio.Writer
	pos        int64
	opts       WriterOptions
	identifier string
	marker     [markerLen]byte

	signal   *signalWriter
	rows     *rowLog
	runs     map[string]*RunInfo
	names    names // of the dictionaries
	sections []writtenSection
	err      error // sticky
}

// writtenSection is where a table was written.
type writtenSection struct {
	what contentType
	section
}

// NewWriter begins a file. scratch is an empty file for the Writer's own use until
// Close; neither is closed. After an error what was written is no POD5 file.
func NewWriter(out io.Writer, scratch io.ReadWriteSeeker, opts WriterOptions) (*Writer, error) {
	if opts.Identifier == ([16]byte{}) {
		_, _ = rand.Read(opts.Identifier[:]) // never fails
		opts.Identifier[6] = opts.Identifier[6]&0x0f | 0x40
		opts.Identifier[8] = opts.Identifier[8]&0x3f | 0x80
	}
	if err := text.Check(opts.Software); err != nil {
		return nil, fmt.Errorf("name of the software %w", err)
	}
	w := &Writer{
		out: bufio.NewWriterSize(out, 1<<20), opts: opts, marker: opts.Identifier,
		identifier: uuid.Format(opts.Identifier),
		rows:       newRowLog(scratch), runs: make(map[string]*RunInfo),
		names: newNames(),
	}
	w.write([]byte(Signature))
	w.write(w.marker[:])
	var err error
	if w.signal, err = newSignalWriter(w); err != nil {
		return nil, err
	}
	return w, nil
}

// Add writes a read. rd says all but where its signal lies: Rows and Samples are
// those of the new file. Reads of a run must describe it alike.
func (w *Writer) Add(rd *Read, samples []int16) error {
	if w.err != nil {
		return w.err
	}
	if err := w.add(rd, samples); err != nil {
		w.err = fmt.Errorf("read %s: %w", uuid.Format(rd.ID), err)
	}
	return w.err
}

func (w *Writer) add(rd *Read, samples []int16) error {
	row, err := w.row(rd)
	if err != nil {
		return err
	}
	row.FirstRow, row.Samples = w.signal.rows, uint64(len(samples))
	for part := range chunks(samples) {
		if err := w.signal.add(rd.ID, part); err != nil {
			return err
		}
		row.Rows++
	}
	return w.rows.add(row)
}

// chunks yields samples in pieces that fit in a row of the signal table.
func chunks(samples []int16) func(yield func([]int16) bool) {
	return func(yield func([]int16) bool) {
		for len(samples) > 0 {
			n := min(len(samples), chunkSamples)
			if !yield(samples[:n]) {
				return
			}
			samples = samples[n:]
		}
	}
}

// row checks a read and translates all but its signal.
func (w *Writer) row(rd *Read) (*readRow, error) {
	check := *rd
	check.Samples = 0
	if err := check.check(); err != nil {
		return nil, err
	}
	run, err := w.run(rd.Run)
	if err != nil {
		return nil, err
	}
	row := &readRow{
		ID: rd.ID, Run: run, Channel: rd.Channel, Well: rd.Well, Number: rd.Number, Start: rd.Start,
		Forced: rd.EndReasonForced, Offset: rd.CalibrationOffset, Scale: rd.CalibrationScale,
		MedianBefore: rd.MedianBefore, Events: rd.MinKNOWEvents, ReadsSinceMux: rd.ReadsSinceMuxChange,
	}
	for i, f := range levelFields {
		row.Levels[i] = *f.at(rd)
	}
	if row.PoreType, err = w.names.poreTypes.index(rd.PoreType); err != nil {
		return nil, fmt.Errorf("field %q: %w", "pore_type", err)
	}
	reason := rd.EndReason
	if reason == "" {
		reason = "unknown"
	}
	if row.EndReason, err = w.names.endReasons.index(reason); err != nil {
		return nil, fmt.Errorf("field %q: %w", "end_reason", err)
	}
	return row, nil
}

// run returns a run's place in the dictionary of runs.
func (w *Writer) run(run *RunInfo) (int16, error) {
	if run == nil {
		return 0, fmt.Errorf("field %q is missing", "run_info")
	}
	have, ok := w.runs[run.AcquisitionID]
	switch {
	case !ok:
		if err := run.Check(); err != nil {
			return 0, fmt.Errorf("run info %q: %w", text.Clip(run.AcquisitionID), err)
		}
		w.runs[run.AcquisitionID] = run
	case have != run:
		if name := have.Difference(run); name != "" {
			return 0, fmt.Errorf("run info %q: field %q differs from an earlier read's", text.Clip(run.AcquisitionID), name)
		}
	}
	i, err := w.names.runs.index(run.AcquisitionID)
	if err != nil {
		return 0, fmt.Errorf("field %q: %w", "run_info", err)
	}
	return i, nil
}

// Close writes what is left and the footer. Without it the file is not complete.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.finish(); w.err != nil {
		return w.err
	}
	w.err = errors.New("the file is complete")
	return nil
}

func (w *Writer) finish() error {
	if err := w.signal.close(); err != nil {
		return err
	}
	if err := w.writeRunInfo(); err != nil {
		return err
	}
	if err := w.writeReads(); err != nil {
		return err
	}
	footer := w.footer()
	w.write([]byte(footerMagic))
	w.write(footer)
	w.write(binary.LittleEndian.AppendUint64(nil, uint64(len(footer))))
	w.write(w.marker[:])
	w.write([]byte(Signature))
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

// Write appends to the file; the Arrow library writes tables through it.
func (w *Writer) Write(b []byte) (int, error) {
	w.write(b)
	return len(b), w.err
}

func (w *Writer) write(b []byte) {
	n, err := w.out.Write(b)
	w.pos += int64(n)
	if w.err == nil {
		w.err = err
	}
}

// end closes the section that began at an offset: padding, then the marker.
func (w *Writer) end(what contentType, offset int64) error {
	w.sections = append(w.sections, writtenSection{what, section{offset, w.pos - offset}})
	w.write(make([]byte, -w.pos&7))
	w.write(w.marker[:])
	return w.err
}

// footer builds the FlatBuffers table Footer of footer.fbs, padded to 8 bytes.
func (w *Writer) footer() []byte {
	b := flatbuffers.NewBuilder(512)
	entries := make([]flatbuffers.UOffsetT, len(w.sections))
	for i, s := range w.sections {
		b.StartObject(4)
		b.PrependInt64Slot(0, s.offset, 0)
		b.PrependInt64Slot(1, s.length, 0)
		b.PrependInt16Slot(2, featherV2, 0)
		b.PrependInt16Slot(3, int16(s.what), 0)
		entries[i] = b.EndObject()
	}
	b.StartVector(4, len(entries), 4)
	for i := len(entries) - 1; i >= 0; i-- {
		b.PrependUOffsetT(entries[i])
	}
	contents := b.EndVector(len(entries))
	identifier, software, version := b.CreateString(w.identifier), b.CreateString(w.opts.Software), b.CreateString(formatVersion)
	b.StartObject(4)
	b.PrependUOffsetTSlot(0, identifier, 0)
	b.PrependUOffsetTSlot(1, software, 0)
	b.PrependUOffsetTSlot(2, version, 0)
	b.PrependUOffsetTSlot(3, contents, 0)
	b.Finish(b.EndObject())
	out := b.FinishedBytes()
	return append(out, make([]byte, -len(out)&7)...)
}

// dictionary numbers the values of a dictionary column in the order of their first
// use.
type dictionary struct {
	values []string
	at     map[string]int16
}

func (d *dictionary) index(v string) (int16, error) {
	if i, ok := d.at[v]; ok {
		return i, nil
	}
	if err := text.Check(v); err != nil {
		return 0, fmt.Errorf("%q %w", text.Clip(v), err)
	}
	if len(d.values) > math.MaxInt16 {
		return 0, fmt.Errorf("more than %d different values", math.MaxInt16)
	}
	i := int16(len(d.values))
	d.values = append(d.values, v)
	d.at[v] = i
	return i, nil
}

// names are the dictionaries of the reads table.
type names struct{ poreTypes, endReasons, runs *dictionary }

func newNames() names {
	empty := func() *dictionary { return &dictionary{at: make(map[string]int16)} }
	return names{empty(), empty(), empty()}
}
