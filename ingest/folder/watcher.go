package folder

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Config says what is watched, and how.
type Config struct {
	Dirs []string
	// Files says what holds reads; nil: POD5, BLOW5 and FAST5 files do.
	Files Files
	// Single says that Dirs may name files, too.
	Single bool
	// Journal is the folder of the journals, one for each run.
	Journal string
	// Topic is the topic of signal; journals of others are left alone.
	Topic string
	// Sample, if set, replaces the sample name of every run.
	Sample string
	// Poll is how often the folders are listed, whether the file system reports
	// changes or not.
	Poll time.Duration
	// Settle is for how long bytes have to be there before they are read; see
	// docs/attach/folders.md.
	Settle time.Duration
	// IdleEnd ends runs of which there was nothing new for so long; 0 never does.
	IdleEnd time.Duration
	// Once ends the watch when all runs have ended. Without IdleEnd, runs end when
	// what there is of them is read.
	Once bool
	// Restart sends runs from their beginning, whatever is in Kafka.
	Restart bool
	Sink    Sink
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
}

// Bounds of what is read of a file before others have their turn.
const (
	batchReads   = 256
	batchSamples = 4 << 20
)

// watcher is what a watch knows. It belongs to one goroutine, and has no clock.
type watcher struct {
	cfg     Config
	log     *slog.Logger
	spawn   func(func() error)
	catalog *catalog
	runs    map[string]*run
	// whole are the files that an earlier process has read to their end.
	whole      map[fingerprint]naming
	over       map[string]bool      // runs of which there is a final summary
	summaries  map[string]time.Time // that were read, and when they were written
	faults     map[string]bool      // folders that can't be listed
	samples    []int16
	began      time.Time
	broken     map[string]bool // paths of files
	gone       map[string]bool // paths of files that were not read to their end
	skipped    int             // reads that can't be used
	unfinished int             // files, when their run ended
}

// naming lists the runs whose journals name a file, and how many have to name it.
type naming struct {
	runs   []string
	needed int
}

func newWatcher(cfg Config, spawn func(func() error), now time.Time) *watcher {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Files == nil {
		cfg.Files = signalFiles{}
	}
	return &watcher{
		cfg: cfg, log: cfg.Logger, spawn: spawn, catalog: newCatalog(cfg.Settle, cfg.Files), began: now,
		runs: make(map[string]*run), whole: make(map[fingerprint]naming), over: make(map[string]bool),
		faults: make(map[string]bool), broken: make(map[string]bool), gone: make(map[string]bool), summaries: make(map[string]time.Time),
	}
}

// resume opens the runs that an earlier process had under way.
func (w *watcher) resume(ctx context.Context, now time.Time) error {
	dirs, err := journals(w.cfg.Journal)
	if err != nil {
		return fmt.Errorf("reading the journals: %w", err)
	}
	for _, dir := range dirs {
		j, err := openJournal(dir)
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		id := j.head.run.GetId()
		ended, err := j.ended()
		if err == nil {
			err = j.f.Close()
		}
		if err != nil {
			return err
		}
		if ended || dir != w.folder(id) {
			continue // opened when a read of it is found; or of another topic
		}
		if _, err := w.open(ctx, id, nil, now); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) folder(run string) string {
	return filepath.Join(w.cfg.Journal, ingest.RunFolder(w.cfg.Topic, run))
}

// open opens a run; desc describes it if there is no journal.
func (w *watcher) open(ctx context.Context, id string, desc *streampb.Run, now time.Time) (*run, error) {
	r := &run{id: id, dir: w.folder(id), log: w.log.With("run", id), desc: desc, partial: make(map[string]int), dirs: make(map[string]bool), read: now}
	var err error
	if r.journal, err = openJournal(r.dir); err != nil {
		return nil, err
	}
	if r.journal != nil {
		r.desc = r.journal.head.run
		if w.cfg.Sample != "" {
			r.desc.Sample = w.cfg.Sample
		}
	}
	err = r.open(ctx, w.spawn, w.cfg.Sink, w.cfg.Restart, func(fp fingerprint, runs int) {
		n := w.whole[fp]
		if n.needed = runs; !slices.Contains(n.runs, id) {
			n.runs = append(n.runs, id)
		}
		w.whole[fp] = n
	})
	if err != nil {
		return nil, err
	}
	w.runs[id] = r
	return r, nil
}

// runOf returns the run of a read. An error is the file's.
func (w *watcher) runOf(ctx context.Context, found Found, now time.Time) (r *run, refused, err error) {
	id := found.Run()
	if r = w.runs[id]; r != nil {
		return r, found.Agrees(r.desc), nil
	}
	desc, refused := found.Describe(w.cfg.Sample)
	if refused == nil {
		_, refused = stream.EncodeRun(desc)
	}
	if refused != nil {
		return nil, fmt.Errorf("run %q: %w", id, refused), nil
	}
	if r, err = w.open(ctx, id, desc, now); err != nil {
		return nil, nil, err
	}
	return r, found.Agrees(r.desc), nil // a run that goes on was described before
}

// take takes a listing of the folders.
func (w *watcher) take(l listing, now time.Time) {
	for path, err := range l.faults {
		if !w.faults[path] {
			w.log.Error("a folder can't be listed; the others go on", "folder", path, "err", err)
			w.cfg.Metrics.folderFailed()
		}
		w.faults[path] = true
	}
	maps.DeleteFunc(w.faults, func(path string, _ bool) bool {
		_, still := l.faults[path]
		if !still {
			w.log.Info("a folder can be listed again", "folder", path)
		}
		return !still
	})
	if len(l.faults) > 0 {
		l.entries = w.keep(l)
	}
	for _, f := range w.catalog.update(l.entries, now) {
		w.gone[f.entry.Path] = true
		w.cfg.Metrics.goneFile()
		w.log.Warn("a file is gone that was not read to its end", "file", f.entry.Path, "reads", f.reads, "bytes", f.entry.Size)
	}
	for path, f := range w.catalog.files {
		if f.kind != summaryFile || w.summaries[path].Equal(f.entry.Mod) {
			continue
		}
		id, err := readSummary(path)
		if err != nil {
			w.log.Warn("a final summary can't be read", "err", err)
			continue
		}
		w.summaries[path] = f.entry.Mod
		if id != "" {
			w.over[id] = true
		}
	}
}

// keep adds to a listing what was known of folders that can't be listed for now:
// their files have not gone away.
func (w *watcher) keep(l listing) []Entry {
	entries := l.entries
	for path, f := range w.catalog.files {
		for bad := range l.faults {
			if rel, err := filepath.Rel(bad, path); err == nil && filepath.IsLocal(rel) {
				entries = append(entries, f.entry)
				break
			}
		}
	}
	return entries
}

// poll reads a batch of each file in which there is something new, and ends runs.
// It returns whether there is more to be read at once.
func (w *watcher) poll(ctx context.Context, now time.Time) (more bool, err error) {
	files, more := turns(w.catalog.due())
	for _, f := range files {
		if err := w.read(ctx, f, now); err != nil {
			return false, err
		}
		more = more || f.more
	}
	w.cfg.Metrics.show(w.catalog)
	if more {
		return true, ctx.Err()
	}
	return false, w.endRuns(ctx, now)
}

// read reads a batch of a file, and more where a batch ends within what is decompressed at once.
func (w *watcher) read(ctx context.Context, f *tracked, now time.Time) error {
	first, forbidden := !f.wasRead, f.forbidden()
	w.catalog.reading(f)
	if first {
		if known, err := w.isWhole(f); err != nil || known {
			return w.checkError(f, err)
		}
	}
	g, err := w.cfg.Files.Open(f.entry.Path, f.trusted, w.catalog.beside(f), f.place)
	if err != nil {
		return w.checkError(f, err)
	}
	defer g.Close()
	ended := false
	for again := true; again; again = f.more && g.Holding() {
		f.more = false
		var batch map[string][]Found
		var refused error
		if batch, ended, refused, err = w.gather(ctx, f, g, now); err != nil {
			return err
		}
		for id, reads := range batch {
			r := w.runs[id]
			r.read, r.dirs[filepath.Dir(f.entry.Path)] = now, true
			if err := w.send(ctx, r, reads); err != nil {
				return err
			}
		}
		if refused != nil {
			return w.checkError(f, refused) // the place stays before what was refused
		}
	}
	place, err := g.Place()
	if err != nil {
		return w.checkError(f, err)
	}
	f.place, f.err = place, nil
	if w.broken[f.entry.Path] && (forbidden || ended) {
		delete(w.broken, f.entry.Path)
		f.reported, f.state = false, growing
		w.log.Info("a file can be read again", "file", f.entry.Path)
	}
	if ended {
		return w.finish(ctx, f)
	}
	return nil
}

// checkError checks why a file can't be read further, if it can't.
func (w *watcher) checkError(f *tracked, err error) error {
	if err == nil || errors.Is(err, signal.ErrUnfinished) || errors.Is(err, os.ErrNotExist) {
		return nil // not now
	}
	if f.failed(err) && !f.reported {
		f.reported, w.broken[f.entry.Path] = true, true
		w.cfg.Metrics.brokenFile()
		w.log.Error("a file is broken; the others go on", "err", err, "reads", f.reads)
	}
	return nil
}

// gather reads what is new in a file, up to a batch, by run. ended says that the
// file has no more, ever; refused is why it can't be read further.
func (w *watcher) gather(ctx context.Context, f *tracked, g File, now time.Time) (batch map[string][]Found, ended bool, refused, err error) {
	batch = make(map[string][]Found)
	buf := w.samples[:0]
	defer func() { w.samples = buf[:0] }()
	inBatch := make(map[string]uint32) // sums
	for len(inBatch) < batchReads && len(buf) < batchSamples {
		found, err := g.Next()
		if skipped, is := errors.AsType[*SkippedError](err); is {
			w.skip(f, skipped)
			continue
		}
		switch {
		case errors.Is(err, io.EOF):
			return batch, true, nil, nil
		case errors.Is(err, signal.ErrUnfinished):
			return batch, false, nil, nil
		case err != nil:
			return batch, false, err, nil
		}
		r, refused, err := w.runOf(ctx, found, now)
		if skipped, is := errors.AsType[*SkippedError](refused); is {
			w.skip(f, skipped)
			continue
		}
		if refused != nil || err != nil {
			return batch, false, refused, err
		}
		f.runs[r.id] = true
		r.dirs[filepath.Dir(f.entry.Path)] = true
		key := r.id + "\x00" + found.ID()
		known, sum, err := r.has(found.ID())
		if err != nil {
			return batch, false, nil, err
		}
		if !known {
			sum, known = inBatch[key]
		}
		if known {
			w.again(f, found, sum)
			continue
		}
		if refused = r.check(found); refused == nil {
			buf, refused = found.Load(buf)
		}
		if skipped, is := errors.AsType[*SkippedError](refused); is {
			w.skip(f, skipped)
			continue
		}
		if refused != nil {
			return batch, false, refused, nil
		}
		inBatch[key] = found.Sum()
		batch[r.id] = append(batch[r.id], found)
		f.reads++
	}
	f.more = true
	return batch, false, nil, nil
}

// again counts a read that was found before, with the sum of bases that it was sent with.
func (w *watcher) again(f *tracked, found Found, sum uint32) {
	w.cfg.Metrics.foundAgain(1)
	f.reads++
	if sum != found.Sum() {
		w.skip(f, &SkippedError{fmt.Errorf("%s: read %s is here with other bases than it was sent with, which stay", f.entry.Path, found.ID())})
	}
}

// loggedSkipped bounds the reads of a file of which each has a line in the log.
const loggedSkipped = 5

// skip logs and counts a read that can't be used.
func (w *watcher) skip(f *tracked, err *SkippedError) {
	w.skipped++
	f.skipped++
	w.cfg.Metrics.skippedRead()
	switch {
	case f.skipped <= loggedSkipped:
		w.log.Error("a read can't be used; the others go on", "err", err.Err)
	case f.skipped == loggedSkipped+1:
		w.log.Error("more reads of a file can't be used; they are counted", "file", f.entry.Path)
	}
}

// send sends reads of a run, unless it has ended.
func (w *watcher) send(ctx context.Context, r *run, reads []Found) error {
	if !r.ended {
		return r.take(ctx, reads, w.cfg.Metrics)
	}
	if r.late == 0 {
		r.log.Error("the run has ended in Kafka, and there are more reads of it, which are not sent: --restart sends it again")
	}
	r.late += int64(len(reads))
	w.cfg.Metrics.tooLate(len(reads))
	return nil
}

// finish notes that a file was read to its end.
func (w *watcher) finish(ctx context.Context, f *tracked) error {
	f.state = finished
	for id := range f.runs {
		if r := w.runs[id]; r.ended {
			return nil // not all of its reads may have been sent
		}
	}
	fp, err := fingerprintOf(f.entry.Path)
	if err != nil {
		return nil //nolint:nilerr // it is read again on the next start
	}
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		if err := w.runs[id].write(ctx, w.cfg.Metrics, record{kind: kindFile, file: fp, runs: len(f.runs)}); err != nil {
			return err
		}
	}
	return nil
}

// isWhole reports whether a file was read to its end by an earlier process.
func (w *watcher) isWhole(f *tracked) (bool, error) {
	if len(w.whole) == 0 || f.trusted != f.entry.Size {
		return false, nil
	}
	fp, err := fingerprintOf(f.entry.Path)
	if err != nil {
		return false, err
	}
	n := w.whole[fp]
	if len(n.runs) == 0 || len(n.runs) < n.needed {
		return false, nil
	}
	for _, id := range n.runs {
		w.runs[id].dirs[filepath.Dir(f.entry.Path)] = true
	}
	f.state = finished
	return true, nil
}

// fingerprinted is how much of a file's beginning and end its fingerprint covers.
const fingerprinted = 64 << 10

// fingerprintOf distinguishes a file from others by its length, its beginning,
// which has the file's identifier or its first reads, and its end.
func fingerprintOf(path string) (fp fingerprint, err error) {
	f, err := os.Open(path)
	if err != nil {
		return fp, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fp, err
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(info.Size())))
	for _, at := range []int64{0, max(0, info.Size()-fingerprinted)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, at, fingerprinted)); err != nil {
			return fp, err
		}
	}
	copy(fp[:], h.Sum(nil))
	return fp, nil
}

// summaryGrace is how long a run's folders have to be quiet before a final summary
// ends it though files of it are not finished.
const summaryGrace = 30 * time.Second

// endRuns ends the runs that are over.
func (w *watcher) endRuns(ctx context.Context, now time.Time) error {
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		r := w.runs[id]
		if r.ended || !w.isOver(r, now) {
			continue
		}
		w.reportUnfinished(w.catalog.unread(r.dirs))
		for read, chunks := range r.partial {
			r.log.Warn("a read was begun by an earlier ingest, and is in no file any more", "read", read, "chunks_sent", chunks)
		}
		if err := r.end(ctx, w.cfg.Metrics); err != nil {
			return err
		}
		r.log.Info("run ended")
	}
	return nil
}

// reportUnfinished logs the files that are not finished though nothing is waited
// for any more, and how far they were read.
func (w *watcher) reportUnfinished(files []*tracked) {
	for _, f := range files {
		if f.reported {
			continue
		}
		f.reported = true
		w.unfinished++
		w.cfg.Metrics.neverFinished(1)
		attrs := []any{"file", f.entry.Path, "reads", f.reads, "bytes", f.entry.Size}
		if _, signal := w.cfg.Files.(signalFiles); signal { // of called reads the place is their number
			attrs = append(attrs, "bytes_read", f.place.Offset, "batches_read", f.place.Batch)
		}
		w.log.Warn("a file was never finished", attrs...)
	}
}

// pause is how long nothing has to change for there to be nothing more for now.
func (w *watcher) pause() time.Duration { return w.cfg.Settle + 2*w.cfg.Poll }

// isOver reports whether a run is to be ended. A run without files in the folders
// is left as it is: it may be of other folders.
func (w *watcher) isOver(r *run, now time.Time) bool {
	if len(r.dirs) == 0 {
		return false
	}
	quiet := now.Sub(r.read)
	if at := w.catalog.lastChange(r.dirs); now.Sub(at) < quiet {
		quiet = now.Sub(at)
	}
	unread := slices.DeleteFunc(w.catalog.unread(r.dirs), func(f *tracked) bool { return f.state == broken })
	switch {
	case w.over[r.id] && (quiet >= summaryGrace || len(unread) == 0 && quiet >= w.pause()):
		return true
	case w.cfg.IdleEnd > 0:
		return quiet >= w.cfg.IdleEnd
	}
	return w.cfg.Once && quiet >= w.pause()
}

// done reports whether a watch that is to end has ended. Its error says that not all is well.
func (w *watcher) done(now time.Time) (bool, error) {
	patience := max(w.cfg.IdleEnd, w.pause())
	if !w.cfg.Once || now.Sub(w.began) < patience || now.Sub(w.catalog.lastChange(nil)) < patience {
		return false, nil
	}
	var late int64
	seen := 0
	for _, r := range w.runs {
		if len(r.dirs) == 0 {
			continue
		}
		if !r.ended {
			return false, nil
		}
		seen++
		late += r.late
	}
	w.reportUnfinished(w.catalog.unread(nil))
	maps.DeleteFunc(w.gone, func(path string, _ bool) bool { return w.catalog.files[path] != nil }) // it was put back
	switch {
	case len(w.broken)+w.unfinished+len(w.gone) > 0 || late > 0:
		return true, fmt.Errorf("%d files are broken, %d were never finished, %d are gone that were not read to their end, and %d reads came after their run's end: see the log",
			len(w.broken), w.unfinished, len(w.gone), late)
	case w.skipped > 0:
		return true, fmt.Errorf("%d reads can't be used: see the log", w.skipped)
	case len(w.faults) > 0:
		return true, fmt.Errorf("%d folders can't be listed: see the log", len(w.faults))
	case seen == 0:
		return true, errors.New("there are no reads in the folders")
	}
	return true, nil
}
