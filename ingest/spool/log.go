package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	defaultSegmentBytes = 16 << 20
	suffix              = ".spool"
)

// ErrFull is wrapped by what Append returns when the quota or the disk has no
// space; nothing was taken then, and an append may succeed later.
var ErrFull = errors.New("the spool is full")

// Quota is a number of bytes that several logs share.
type Quota struct {
	limit int64
	used  atomic.Int64
}

// NewQuota allows limit bytes.
func NewQuota(limit int64) *Quota { return &Quota{limit: limit} }

// Limit is the number of bytes that are allowed.
func (q *Quota) Limit() int64 { return q.limit }

// Used is the number of bytes in the logs' files.
func (q *Quota) Used() int64 { return q.used.Load() }

// File is a file of a log.
type File interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// Options say how a log is kept.
type Options struct {
	// Quota bounds the log, with others; nil means not at all.
	Quota *Quota
	// SegmentBytes is the size from which on a new segment is begun; space is
	// given back by segment. Zero means 16 MiB.
	SegmentBytes int64
	// Open opens a segment for appending; nil is the operating system's way.
	// Tests put a disk here that fails.
	Open func(path string) (File, error)
}

// Log is a queue of records with consecutive numbers. One goroutine at a time may
// append and one may read; they and everything else may run beside each other.
type Log struct {
	dir  string
	opts Options

	mu       sync.Mutex
	segments []segment // in order, none missing
	tail     File      // of the last segment; nil while there is none open
	buf      []byte
	broken   error
	behind   place // where the last Read ended
}

// place is where a record begins in its segment.
type place struct {
	segment, number uint64
	offset          int64
}

// segment is one file with records first to next-1.
type segment struct {
	first, next uint64
	size        int64
}

// Cut says that opening a log has cut a torn tail.
type Cut struct {
	Path  string
	Bytes int64
}

// Open opens the log in a folder, which is made if need be, and cuts what a
// crash has left half written. The caller makes sure that nobody else has the folder open.
func Open(dir string, opts Options) (*Log, *Cut, error) {
	if opts.SegmentBytes == 0 {
		opts.SegmentBytes = defaultSegmentBytes
	}
	if opts.Quota == nil {
		opts.Quota = NewQuota(1 << 62)
	}
	if opts.Open == nil {
		opts.Open = openFile
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("opening the spool: %w", err)
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, nil, fmt.Errorf("opening the spool: %w", err)
	}
	l := &Log{dir: dir, opts: opts}
	cut, err := l.load()
	if err != nil {
		return nil, nil, fmt.Errorf("opening the spool: %w", err)
	}
	return l, cut, nil
}

func openFile(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

func (l *Log) path(first uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%020d%s", first, suffix))
}

// load lists and checks the segments that are there.
func (l *Log) load() (*Cut, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var firsts []uint64
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		if !ours {
			continue
		}
		first, err := strconv.ParseUint(name, 10, 64)
		if err != nil || len(name) != 20 {
			return nil, fmt.Errorf("%s: not a name of a segment", filepath.Join(l.dir, e.Name()))
		}
		firsts = append(firsts, first)
	}
	slices.Sort(firsts)
	var cut *Cut
	for i, first := range firsts {
		last := i == len(firsts)-1
		s, torn, err := l.check(first)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", l.path(first), err)
		case torn == nil:
		case !last:
			return nil, fmt.Errorf("%s: damaged at byte %d of %d, and newer segments follow: the disk has lost what it had taken", l.path(first), s.size, s.size+torn.Bytes)
		default:
			cut = torn
			if err := l.cut(&s, torn); err != nil {
				return nil, fmt.Errorf("%s: cutting a torn tail: %w", l.path(first), err)
			}
		}
		if s.first == s.next { // begun, and nothing taken
			if err := os.Remove(l.path(first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if n := len(l.segments); n > 0 && l.segments[n-1].next != s.first {
			return nil, fmt.Errorf("%s: begins with record %d, but %d would be next: a segment is missing", l.path(first), s.first, l.segments[n-1].next)
		}
		l.segments = append(l.segments, s)
		l.opts.Quota.used.Add(s.size)
	}
	return cut, nil
}

// check reads a segment through. A record that doesn't check ends it: torn then
// describes what follows.
func (l *Log) check(first uint64) (s segment, torn *Cut, err error) {
	f, err := os.Open(l.path(first))
	if err != nil {
		return s, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, nil, err
	}
	s = segment{first: first, next: first}
	r := reader{in: bufio.NewReaderSize(f, 1<<20)}
	if err = r.header(first); err == nil {
		s.size = headerBytes
		for {
			var payload []byte
			if payload, err = r.next(s.next); err != nil {
				break
			}
			s.next++
			s.size += recordSize(len(payload))
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return s, nil, nil
	case errors.Is(err, errTorn):
		return s, &Cut{Path: l.path(first), Bytes: info.Size() - s.size}, nil
	}
	return s, nil, err
}

// cut shortens a segment to what checks, or removes one that is not even begun.
func (l *Log) cut(s *segment, torn *Cut) error {
	if s.size == 0 {
		return errors.Join(os.Remove(torn.Path), syncDir(l.dir))
	}
	f, err := os.OpenFile(torn.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(s.size), f.Sync(), f.Close())
}

// Bounds are the numbers of the first record and of the one behind the last;
// both are 0 while the log is empty.
func (l *Log) Bounds() (first, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) == 0 {
		return 0, 0
	}
	return l.segments[0].first, l.segments[len(l.segments)-1].next
}

// Append takes payloads under the numbers from first on, which continue the
// log's, and returns once they are on disk: all of them, or none with an error.
// Without space the error wraps [ErrFull].
func (l *Log) Append(first uint64, payloads [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if n := len(l.segments); n > 0 && l.segments[n-1].next != first {
		return fmt.Errorf("spooling: record %d where %d is next", first, l.segments[n-1].next)
	}
	l.buf = l.buf[:0]
	for i, p := range payloads {
		if len(p) > maxPayload {
			return fmt.Errorf("spooling: record of %d bytes, the limit is %d", len(p), maxPayload)
		}
		l.buf = appendRecord(l.buf, first+uint64(i), p)
	}
	size := int64(len(l.buf))
	if used := l.opts.Quota.used.Add(size); used > l.opts.Quota.limit {
		l.opts.Quota.used.Add(-size)
		return fmt.Errorf("spooling %d bytes: %w: %d of %d bytes are in use", size, ErrFull, used-size, l.opts.Quota.limit)
	}
	if err := l.append(first, uint64(len(payloads))); err != nil {
		l.opts.Quota.used.Add(-size)
		return fmt.Errorf("spooling %d bytes: %w", size, noSpace(err))
	}
	return nil
}

// append writes and syncs buf. After a failure the segment is as it was before:
// what a failed sync has left of the data is not to be trusted.
func (l *Log) append(first, count uint64) error {
	if err := l.roll(first); err != nil {
		return err
	}
	s := &l.segments[len(l.segments)-1]
	_, err := l.tail.Write(l.buf)
	if err == nil {
		err = l.tail.Sync()
	}
	if err != nil {
		if undo := errors.Join(l.tail.Truncate(s.size), l.tail.Sync()); undo != nil {
			l.broken = fmt.Errorf("the spool's disk fails: %w", errors.Join(err, undo))
		}
		return err
	}
	s.size += int64(len(l.buf))
	s.next += count
	return nil
}

// roll sees to a segment that is open and not full.
func (l *Log) roll(first uint64) error {
	n := len(l.segments)
	if l.tail != nil && l.segments[n-1].size < l.opts.SegmentBytes {
		return nil
	}
	if l.tail == nil && n > 0 && l.segments[n-1].size < l.opts.SegmentBytes {
		f, err := l.opts.Open(l.path(l.segments[n-1].first))
		l.tail = f
		return err
	}
	path := l.path(first)
	f, err := l.opts.Open(path)
	if err != nil {
		return err
	}
	_, err = f.Write(appendHeader(nil, first))
	if err == nil {
		err = errors.Join(f.Sync(), syncDir(l.dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if l.tail != nil {
		if err := l.tail.Close(); err != nil {
			return errors.Join(err, f.Close(), os.Remove(path))
		}
	}
	l.tail = f
	l.segments = append(l.segments, segment{first: first, next: first, size: headerBytes})
	l.opts.Quota.used.Add(headerBytes)
	return nil
}

// TrimBefore gives back the space of segments whose records all have lower
// numbers. With the number behind the last record the log is empty afterwards.
func (l *Log) TrimBefore(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.segments) > 0 && l.segments[0].next <= number {
		s := l.segments[0]
		if len(l.segments) == 1 && l.tail != nil {
			if err := l.tail.Close(); err != nil {
				return fmt.Errorf("trimming the spool: %w", err)
			}
			l.tail = nil
		}
		if err := os.Remove(l.path(s.first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trimming the spool: %w", err)
		}
		l.segments = l.segments[1:]
		l.behind = place{}
		l.opts.Quota.used.Add(-s.size)
	}
	return nil
}

// Read returns payloads from record number on, in order: at least one, and more
// while those before have less than maxBytes together. The record must be in the
// log.
func (l *Log) Read(number uint64, maxBytes int64) ([][]byte, error) {
	l.mu.Lock()
	i := slices.IndexFunc(l.segments, func(s segment) bool { return s.first <= number && number < s.next })
	if i < 0 {
		l.mu.Unlock()
		return nil, fmt.Errorf("reading the spool: it does not hold record %d", number)
	}
	s, at := l.segments[i], l.behind
	l.mu.Unlock()
	// What is below next and size is written and stays as it is.
	payloads, at, err := l.read(s, at, number, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the spool: %s: record %d: %w", l.path(s.first), number, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = at
	return payloads, nil
}

// read goes through a segment from at, if that is a place in it before what is
// wanted, and returns the place behind what it has read.
func (l *Log) read(s segment, at place, number uint64, maxBytes int64) ([][]byte, place, error) {
	f, err := os.Open(l.path(s.first))
	if err != nil {
		return nil, at, err
	}
	defer f.Close()
	if at.offset == 0 || at.segment != s.first || at.number > number {
		at = place{segment: s.first, number: s.first, offset: headerBytes}
	}
	if _, err := f.Seek(at.offset, io.SeekStart); err != nil {
		return nil, at, err
	}
	r := reader{in: bufio.NewReaderSize(f, 256<<10)}
	for ; at.number < number; at.number++ {
		n, err := r.skip()
		if err != nil {
			return nil, at, err
		}
		at.offset += recordSize(n)
	}
	var out [][]byte
	for at.number < s.next && (len(out) == 0 || maxBytes > 0) {
		payload, err := r.next(at.number)
		if err != nil {
			return nil, at, err
		}
		maxBytes -= int64(len(payload))
		out = append(out, payload)
		at.number++
		at.offset += recordSize(len(payload))
	}
	return out, at, nil
}

// Close closes the log's file. What was taken is on disk already.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail == nil {
		return nil
	}
	err := l.tail.Close()
	l.tail = nil
	l.broken = errors.Join(l.broken, fs.ErrClosed)
	if err != nil {
		return fmt.Errorf("closing the spool: %w", err)
	}
	return nil
}

// reader reads a segment.
type reader struct {
	in   *bufio.Reader
	head [max(headerBytes, recordBytes)]byte
}

func (r *reader) header(first uint64) error {
	if _, err := io.ReadFull(r.in, r.head[:headerBytes]); err != nil {
		return errTorn
	}
	got, err := parseHeader(r.head[:headerBytes])
	if err == nil && got != first {
		err = fmt.Errorf("holds records from %d on", got)
	}
	return err
}

// next returns a record's payload in memory of its own; io.EOF between records,
// errTorn within one.
func (r *reader) next(number uint64) ([]byte, error) {
	if _, err := io.ReadFull(r.in, r.head[:recordBytes]); err != nil {
		return nil, torn(err)
	}
	n, err := payloadLen(r.head[:])
	if err != nil {
		return nil, err
	}
	// A damaged length must not make us allocate more than is there.
	rec := append(make([]byte, 0, recordBytes+min(n, 1<<20)), r.head[:recordBytes]...)
	for len(rec) < recordBytes+n {
		part := min(recordBytes+n-len(rec), 1<<20)
		rec = slices.Grow(rec, part)
		if _, err := io.ReadFull(r.in, rec[len(rec):len(rec)+part]); err != nil {
			return nil, errors.Join(errTorn, ignoreEOF(err))
		}
		rec = rec[:len(rec)+part]
	}
	payload, _, err := parseRecord(rec, number)
	return payload, err
}

// skip passes a record over and returns its payload's length.
func (r *reader) skip() (int, error) {
	if _, err := io.ReadFull(r.in, r.head[:recordBytes]); err != nil {
		return 0, torn(err)
	}
	n, err := payloadLen(r.head[:])
	if err != nil {
		return 0, err
	}
	return r.in.Discard(n)
}

func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// syncDir makes the creation and removal of files durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteFile writes a file so that it is there whole or not at all, whatever
// happens.
func WriteFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}
