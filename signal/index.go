package signal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal/internal/uuid"
)

// Index lists the reads of a recording in the order in which the sequencer
// began them, whatever files they lie in, and fetches their samples on demand.
// It takes about a hundred bytes of memory for each read. Its methods, Close
// apart, may be called from several goroutines at once.
type Index struct {
	paths   []string
	sources []source
	runs    []*Run
	entries []entry

	// What few reads have is kept aside, so that an entry stays small.
	names     []string   // read ids that are no UUID
	scattered [][]uint64 // signal rows that don't follow each other
	poreTypes []string
	repeated  int // reads that were in a file before
}

// Repeated is how many reads were left out because an earlier file has them.
func (x *Index) Repeated() int { return x.repeated }

// entry is a Read without its pointers.
type entry struct {
	id          [16]byte
	startSample uint64
	events      uint64
	at          uint64 // BLOW5 and FAST5: byte offset; POD5: first signal row, or an index into scattered
	rows        uint32 // POD5: number of signal rows
	samples     uint32
	name        uint32 // index into names plus one, or 0 for a UUID
	number      uint32
	channel     uint32
	run         uint32
	file        uint32

	medianBefore, openPore, offset, scale float32

	poreType    uint16
	well        uint8
	end         EndReason
	forced      bool
	isScattered bool
}

// Duplicates says what becomes of a read that lies in two files.
type Duplicates uint8

const (
	// RefuseDuplicates has it an error, as the read would be taken twice.
	RefuseDuplicates Duplicates = iota
	// FirstOfDuplicates takes it from the first of the files.
	FirstOfDuplicates
)

// ParseDuplicates returns the choice that a user named; of an empty name, RefuseDuplicates.
func ParseDuplicates(name string) (Duplicates, error) {
	switch name {
	case "", "error":
		return RefuseDuplicates, nil
	case "first":
		return FirstOfDuplicates, nil
	}
	return 0, fmt.Errorf("%q: want first or error", name)
}

// NewIndex scans the metadata of every read in the given files and folders. The
// context ends the scan early. A read that occurs twice is an error, as it would
// be played twice.
func NewIndex(ctx context.Context, paths []string) (*Index, error) {
	return NewIndexOf(ctx, paths, RefuseDuplicates)
}

// NewIndexOf is [NewIndex] with a choice of what becomes of reads in two files. Reads of
// one UUID are one read; if its numbers of samples differ, it is an error.
func NewIndexOf(ctx context.Context, paths []string, duplicates Duplicates) (*Index, error) {
	files, err := Expand(paths)
	if err != nil {
		return nil, err
	}
	x := &Index{paths: files}
	b := indexBuilder{x: x, duplicates: duplicates, runs: make(map[string]uint32), pores: make(map[string]uint16)}
	for _, path := range files {
		if err := b.scan(ctx, path); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	if err := b.finish(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// indexBuilder holds what only building needs.
type indexBuilder struct {
	duplicates Duplicates
	x          *Index
	runs       map[string]uint32 // by id
	pores      map[string]uint16
}

// scan adds the reads of one file.
func (b *indexBuilder) scan(ctx context.Context, path string) error {
	src, err := openSource(path)
	if err != nil {
		return err
	}
	b.x.sources = append(b.x.sources, src)
	known := make(map[*Run]uint32) // of this file
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return fmt.Errorf("indexing the recording: %w", context.Cause(ctx))
		}
		rd, at, err := src.next(false)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			run, ok := known[rd.Run]
			if !ok {
				run, err = b.run(rd.Run)
				known[rd.Run] = run
			}
			if err == nil {
				err = b.add(rd, at, run)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// run finds or adds a run: the files of one recording share theirs.
func (b *indexBuilder) run(r *Run) (uint32, error) {
	if i, ok := b.runs[r.ID]; ok {
		have := b.x.runs[i]
		if have.SampleRate != r.SampleRate {
			return 0, fmt.Errorf("run %s has reads of %d samples a second and of %d: two recordings have one id, keep them apart (pore signal check says where)", r.ID, have.SampleRate, r.SampleRate)
		}
		if have.StartTime.IsZero() {
			have.StartTime = r.StartTime
		}
		return i, nil
	}
	i := uint32(len(b.x.runs))
	b.runs[r.ID] = i
	b.x.runs = append(b.x.runs, r)
	return i, nil
}

func (b *indexBuilder) add(rd *Read, at location, run uint32) error {
	if uint64(rd.NumSamples) > math.MaxUint32 {
		return fmt.Errorf("read %s has %d samples", rd.ID, rd.NumSamples)
	}
	e := entry{
		startSample: rd.StartSample, events: rd.MinKNOWEvents, samples: uint32(rd.NumSamples),
		number: rd.Number, channel: rd.Channel, run: run, file: uint32(len(b.x.sources) - 1),
		medianBefore: rd.MedianBefore, openPore: rd.OpenPoreLevel,
		offset: rd.Calibration.Offset, scale: rd.Calibration.Scale,
		well: rd.Well, end: rd.EndReason, forced: rd.EndReasonForced,
		at: at.offset, rows: uint32(len(at.rows)),
	}
	var named bool
	if e.id, named = uuid.Parse(rd.ID); !named {
		b.x.names = append(b.x.names, rd.ID)
		e.name = uint32(len(b.x.names))
	}
	switch {
	case len(at.rows) == 0:
	case consecutive(at.rows):
		e.at = at.rows[0]
	default:
		e.isScattered = true
		e.at = uint64(len(b.x.scattered))
		b.x.scattered = append(b.x.scattered, slices.Clone(at.rows))
	}
	pore, ok := b.pores[rd.PoreType]
	if !ok {
		if len(b.x.poreTypes) > math.MaxUint16 {
			return fmt.Errorf("read %s: more than %d pore types", rd.ID, math.MaxUint16)
		}
		pore = uint16(len(b.x.poreTypes))
		b.pores[rd.PoreType] = pore
		b.x.poreTypes = append(b.x.poreTypes, rd.PoreType)
	}
	e.poreType = pore
	b.x.entries = append(b.x.entries, e)
	return nil
}

func consecutive(rows []uint64) bool {
	for i, r := range rows {
		if r != rows[0]+uint64(i) {
			return false
		}
	}
	return true
}

// finish puts the reads in order and searches for repeated ones.
func (b *indexBuilder) finish() error {
	x := b.x
	// Instants are compared as nanoseconds since 1970; a run whose file doesn't
	// state its start begins there.
	base := make([]int64, len(x.runs))
	for i, r := range x.runs {
		if !r.StartTime.IsZero() {
			base[i] = r.StartTime.UnixNano()
		}
	}
	start := func(e *entry) int64 {
		d := int64(samplesToDuration(e.startSample, x.runs[e.run].SampleRate))
		return base[e.run] + min(d, math.MaxInt64-max(base[e.run], 0))
	}
	x.entries = slices.Clip(x.entries)
	slices.SortFunc(x.entries, func(p, q entry) int {
		return cmp.Or(
			cmp.Compare(start(&p), start(&q)),
			strings.Compare(x.runs[p.run].ID, x.runs[q.run].ID),
			cmp.Compare(p.channel, q.channel),
			cmp.Compare(p.number, q.number),
			slices.Compare(p.id[:], q.id[:]),
			strings.Compare(x.name(&p), x.name(&q)),
			cmp.Compare(p.file, q.file),
		)
	})
	// Entries point at runs by number, so the numbers move with the runs.
	order := make([]uint32, len(x.runs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(p, q uint32) int {
		return cmp.Or(cmp.Compare(base[p], base[q]), strings.Compare(x.runs[p].ID, x.runs[q].ID))
	})
	moved := make([]uint32, len(order))
	sorted := make([]*Run, len(order))
	for to, from := range order {
		moved[from], sorted[to] = uint32(to), x.runs[from]
	}
	x.runs = sorted
	for i := range x.entries {
		x.entries[i].run = moved[x.entries[i].run]
	}
	return b.unique()
}

// unique searches for reads that occur more than once: reads with the same UUID, and reads of one
// run with the same name, where names aren't UUIDs.
func (b *indexBuilder) unique() error {
	x := b.x
	order := make([]uint32, len(x.entries))
	for i := range order {
		order[i] = uint32(i)
	}
	same := func(p, q *entry) int {
		if c := cmp.Or(bytes.Compare(p.id[:], q.id[:]), strings.Compare(x.name(p), x.name(q))); c != 0 || p.name == 0 {
			return c
		}
		return cmp.Compare(p.run, q.run)
	}
	slices.SortFunc(order, func(i, j uint32) int {
		p, q := &x.entries[i], &x.entries[j]
		return cmp.Or(same(p, q), cmp.Compare(p.file, q.file), cmp.Compare(i, j))
	})
	again := make(map[uint32]bool)
	for i := 1; i < len(order); i++ {
		p, q := &x.entries[order[i-1]], &x.entries[order[i]]
		switch {
		case same(p, q) != 0:
			continue
		case p.file == q.file:
			return fmt.Errorf("%s: read %s occurs twice", x.paths[p.file], x.id(p))
		case b.duplicates == RefuseDuplicates:
			return fmt.Errorf("%s: read %s is also in %s: give each recording once, or --duplicates first", x.paths[q.file], x.id(q), x.paths[p.file])
		case p.samples != q.samples:
			return fmt.Errorf("%s: read %s has %d samples, and %d in %s: one of the files is not whole", x.paths[q.file], x.id(q), q.samples, p.samples, x.paths[p.file])
		}
		again[order[i]] = true
	}
	if x.repeated = len(again); x.repeated == 0 {
		return nil
	}
	kept := x.entries[:0]
	for i, e := range x.entries {
		if !again[uint32(i)] {
			kept = append(kept, e)
		}
	}
	x.entries = slices.Clip(kept)
	x.dropRuns()
	return nil
}

// name returns a read id that is no UUID, or nothing.
func (x *Index) name(e *entry) string {
	if e.name == 0 {
		return ""
	}
	return x.names[e.name-1]
}

func (x *Index) id(e *entry) string {
	if e.name != 0 {
		return x.name(e)
	}
	return uuid.Format(e.id)
}

// Runs returns the runs of the recording, by start time and then id. A run that
// lies in several files is listed once, with the attributes that the first file
// gives it.
func (x *Index) Runs() []*Run { return slices.Clone(x.runs) }

// Len returns the number of reads.
func (x *Index) Len() int { return len(x.entries) }

// Entry returns the metadata of read i, 0 <= i < Len(); its Samples are nil.
// Reads are ordered by their Start, then by run, channel and number.
func (x *Index) Entry(i int) Read {
	e := &x.entries[i]
	return Read{
		ID:              x.id(e),
		Run:             x.runs[e.run],
		Channel:         e.channel,
		Well:            e.well,
		PoreType:        x.poreTypes[e.poreType],
		Number:          e.number,
		StartSample:     e.startSample,
		NumSamples:      int(e.samples),
		MedianBefore:    e.medianBefore,
		OpenPoreLevel:   e.openPore,
		Calibration:     Calibration{Offset: e.offset, Scale: e.scale},
		EndReason:       e.end,
		EndReasonForced: e.forced,
		MinKNOWEvents:   e.events,
	}
}

// Path returns the file that holds read i.
func (x *Index) Path(i int) string { return x.paths[x.entries[i].file] }

// Samples appends the ADC levels of read i to buf. It may be called from
// several goroutines at once. On an error it returns buf unchanged.
func (x *Index) Samples(i int, buf []int16) ([]int16, error) {
	e := &x.entries[i]
	at := location{id: e.id, offset: e.at}
	switch {
	case e.isScattered:
		at.rows = x.scattered[e.at]
	case e.rows > 0:
		at.rows = make([]uint64, e.rows)
		for k := range at.rows {
			at.rows[k] = e.at + uint64(k)
		}
	}
	out, err := x.sources[e.file].samples(at, int(e.samples), buf)
	if err != nil {
		return buf, fmt.Errorf("%s: read %s: %w", x.Path(i), x.id(e), err)
	}
	return out, nil
}

// Close releases the files. No call of Samples may be under way or follow.
func (x *Index) Close() error {
	var errs []error
	for i, s := range x.sources {
		if err := s.close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.paths[i], err))
		}
	}
	x.sources = nil
	return errors.Join(errs...)
}
