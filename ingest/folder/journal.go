package folder

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream/streampb"
)

// journalFile is the name of a run's journal in its folder.
const journalFile = "journal"

// file is what a journal needs of its file.
type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// journal says which reads a run's events are. A read is in it, synced to disk,
// before any of its events is sent.
type journal struct {
	f    file
	path string
	head record
	size int64 // bytes that are good
	torn bool  // bytes behind them have to be cut off first
}

// known receives what a journal holds of the past.
type known struct {
	// read is called for each read, or part of one, whose first chunks, next of
	// total, are in Kafka.
	read func(id string, sum uint32, next, total int) error
	// file is called for each file whose reads are all in Kafka.
	file func(fp fingerprint, runs int)
}

// openJournal opens the journal in a run's folder. It returns nil if none was
// begun there.
func openJournal(dir string) (*journal, error) {
	path := filepath.Join(dir, journalFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j := &journal{f: f, path: path}
	head, err := j.scan(func(record, int64) (bool, error) { return false, nil })
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if head.kind == 0 {
		// Its first record was being written when the process died: nothing was sent.
		return nil, errors.Join(f.Close(), os.Remove(path))
	}
	j.head = head
	return j, nil
}

// beginJournal makes a run's folder and journal.
func beginJournal(dir string, run *streampb.Run, chunk int, partitions int32) (*journal, error) {
	fail := func(err error) (*journal, error) { return nil, fmt.Errorf("beginning the journal: %w", err) }
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	path := filepath.Join(dir, journalFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fail(err)
	}
	j := &journal{f: f, path: path, head: record{kind: kindRun, run: run, chunk: chunk, partitions: partitions}}
	err = j.append(j.head)
	if err == nil {
		err = syncDir(dir)
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fail(errors.Join(err, f.Close(), os.Remove(path)))
	}
	return j, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// append adds records and returns when they are on disk. After an error none of
// them is in the journal.
func (j *journal) append(records ...record) error {
	var b []byte
	for i := range records {
		var err error
		if b, err = appendRecord(b, &records[i]); err != nil {
			return err
		}
	}
	if j.torn {
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("writing %s: %w", j.path, err)
		}
		j.torn = false
	}
	_, err := j.f.WriteAt(b, j.size)
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		j.torn = true
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	j.size += int64(len(b))
	return nil
}

// scan calls fn with each record but the first, and where it ends, until fn
// returns false. It returns the first record; a zero one if there is none.
func (j *journal) scan(fn func(r record, end int64) (bool, error)) (head record, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(j.f, 0, 1<<62), 1<<20)
	var at int64
	var b []byte
	for {
		b = append(b[:0], make([]byte, frameLen)...)
		var n int
		if _, err = io.ReadFull(in, b); err == nil {
			if n, err = frameSize(b); err == nil {
				b = append(b, make([]byte, n)...)
				_, err = io.ReadFull(in, b[frameLen:])
			}
		}
		var r record
		if err == nil {
			r, err = parseRecord(b)
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errTorn):
			j.torn = !errors.Is(err, io.EOF)
			return head, nil
		case err != nil:
			return head, fmt.Errorf("%s: byte %d: %w", j.path, at, err)
		case (at == 0) != (r.kind == kindRun):
			return head, fmt.Errorf("%s: byte %d: record of kind %d", j.path, at, r.kind)
		}
		at += int64(len(b))
		if r.kind == kindRun {
			head, j.size = r, at
			continue
		}
		if more, err := fn(r, at); err != nil || !more {
			return head, err
		}
	}
}

// ended reports whether the journal says that its run has ended.
func (j *journal) ended() (bool, error) {
	end, err := appendRecord(nil, &record{kind: kindEnd})
	if err != nil {
		return false, err
	}
	info, err := os.Stat(j.path)
	if err != nil || info.Size() < int64(len(end)) {
		return false, err
	}
	last := make([]byte, len(end))
	if _, err := j.f.ReadAt(last, info.Size()-int64(len(end))); err != nil {
		return false, fmt.Errorf("reading %s: %w", j.path, err)
	}
	return bytes.Equal(last, end), nil
}

// rewind brings the journal to a position of its run, that of Kafka's cursor: what
// lies beyond is forgotten, and what lies before is passed to past.
func (j *journal) rewind(to ingest.Position, past known) error {
	r := rewinder{until: to.Next(), past: past, good: j.size}
	if to.Ended() {
		r.until--
	}
	if err := r.at.Begin(j.head.run, j.head.chunk, j.head.partitions); err != nil {
		return err
	}
	_, err := j.scan(r.next)
	if err == nil {
		_, err = r.settle()
	}
	if to.Ended() && r.at.Next() == r.until {
		r.at.End()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", j.path, err)
	case r.at.Next() < to.Next():
		return fmt.Errorf("%s knows %d events of the run, and %d are in Kafka: give the --journal that the run was begun with, or --restart to send it again from its beginning", j.path, r.at.Next(), to.Next())
	case r.at != to:
		return fmt.Errorf("%s is not of the reads that are in Kafka: give the --journal that the run was begun with, or --restart to send it again from its beginning", j.path)
	}
	j.size, j.torn = r.good, true
	if r.cut > 0 {
		return j.append(record{kind: kindCut, count: r.cut})
	}
	return j.append()
}

// rewinder follows a journal up to a position.
type rewinder struct {
	at    ingest.Position
	until uint64 // events before the position, but for the run's end
	past  known
	// read is the last one, which the next record may cut short, and readEnd where
	// its records end.
	read    *record
	readEnd int64
	good    int64 // what lies before is kept
	cut     int   // chunks of the last read that lie before the position, if not all do
}

// next takes a record that ends at a place, and returns false at the position.
func (r *rewinder) next(rec record, end int64) (bool, error) {
	if rec.kind == kindCut {
		if r.read == nil || rec.count == 0 || rec.count > r.read.count {
			return false, fmt.Errorf("byte %d: %d chunks of a read that hasn't as many", r.good, rec.count)
		}
		r.read.count, r.readEnd = rec.count, end
		return true, nil
	}
	whole, err := r.settle()
	if err != nil || !whole {
		return false, err
	}
	if rec.kind == kindRead {
		r.read, r.readEnd = &rec, end
		return r.at.Next() < r.until, nil
	}
	if rec.kind == kindFile {
		r.past.file(rec.file, rec.runs)
	}
	r.good = end
	return true, nil
}

// settle goes over the last read, and returns false if the position is in its
// middle. A read that begins at the position is forgotten.
func (r *rewinder) settle() (whole bool, err error) {
	read := r.read
	r.read = nil
	if read == nil || r.at.Next() == r.until {
		return read == nil, nil
	}
	n := 0
	for ; n < read.count && r.at.Next() < r.until; n++ {
		r.at.Chunk(read.id, read.from+n)
	}
	r.good = r.readEnd
	if n < read.count {
		r.cut = n
	}
	return n == read.count, r.past.read(read.id, read.sum, read.from+n, read.total)
}
