package folder

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/signal"
)

// Entry is a file as a listing of a folder shows it.
type Entry struct {
	Path string
	// ID distinguishes the file from others while it exists, by device and inode; a zero ID says that the file system can't.
	ID   FileID
	Size int64
	Mod  time.Time
}

// FileID is a file's device and inode.
type FileID struct{ Device, Inode uint64 }

// kind is what a file is by its name.
type kind int

const (
	otherFile   kind = iota
	readFile         // may hold reads
	partFile         // lies beside a POD5 file that is being written
	summaryFile      // says that a run is over
)

// baseName is a file's name in lower case. Writers and copying programs put something
// behind or before the names of files that are not finished: .x.pod5.Qw3rTy,
// x.pod5.tmp, x.blow5.part.
func baseName(path string) string { return strings.ToLower(filepath.Base(path)) }

// classify returns what a file is.
func classify(path string, files Files) kind {
	name := baseName(path)
	switch {
	case strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".tmp-reads") || strings.HasSuffix(name, ".tmp-run-info")):
		return partFile
	case strings.HasPrefix(name, "final_summary") && strings.HasSuffix(name, ".txt"):
		return summaryFile
	case files.Holds(path):
		return readFile
	}
	return otherFile
}

// state is how far a file is.
type state int

const (
	growing  state = iota // more may come
	finished              // read to its end, which its writer has put there
	broken                // can't be read further
)

// tracked is a file that is followed.
type tracked struct {
	entry   Entry
	kind    kind
	state   state
	place   signal.Place
	reads   int             // that were taken from it, or were known already
	skipped int             // that can't be used
	runs    map[string]bool // they are of
	err     error           // that reading ended with the last time, if it did
	more    bool            // reading stopped before there was nothing left
	// reported says that it was logged that the file is broken or not finished.
	reported bool
	// trusted is the size that the file had some time ago: what a network file
	// system shows of the newest bytes may be zeros for a moment. next is what will
	// be trusted when it has lasted.
	trusted, next int64
	nextAt        time.Time
	stamp         stamp // when it was last read
	wasRead       bool
}

// stamp is what has to change for a file to be read again.
type stamp struct {
	size  int64
	mod   time.Time
	parts int64 // sizes of the files beside it
}

// catalog follows the files of the folders by their listings. It reads no file
// and no clock.
type catalog struct {
	settle time.Duration
	holds  Files
	files  map[string]*tracked // by path
	parts  map[string]int64    // trusted bytes of part files, by folder
	// changed is when something in a folder last changed.
	changed map[string]time.Time
}

func newCatalog(settle time.Duration, holds Files) *catalog {
	return &catalog{settle: settle, holds: holds, files: make(map[string]*tracked), parts: make(map[string]int64), changed: make(map[string]time.Time)}
}

// update takes a listing of all folders and returns the files of reads that are no
// longer there, under any name, though they had not been read to their end.
func (c *catalog) update(listing []Entry, now time.Time) (lost []*tracked) {
	there := make(map[string]bool, len(listing))
	for _, e := range listing {
		there[e.Path] = true
	}
	gone := make(map[FileID]*tracked)
	for path, f := range c.files {
		if there[path] {
			continue
		}
		delete(c.files, path)
		c.changed[filepath.Dir(path)] = now
		if f.entry.ID != (FileID{}) {
			gone[f.entry.ID] = f
		}
		if f.kind == readFile && f.state != finished && f.entry.Size > 0 {
			lost = append(lost, f)
		}
	}
	for _, e := range listing {
		k := classify(e.Path, c.holds)
		if k == otherFile {
			continue
		}
		f := c.files[e.Path]
		if f != nil && (f.entry.ID != e.ID || e.Size < f.entry.Size) {
			f = nil // another file, or written anew
		}
		if was := gone[e.ID]; f == nil && was != nil && was.kind == k && e.Size >= was.entry.Size {
			f = was // renamed
			lost = slices.DeleteFunc(lost, func(l *tracked) bool { return l == was })
			delete(gone, e.ID)
		}
		if f == nil {
			f = &tracked{kind: k, runs: make(map[string]bool), next: e.Size, nextAt: now}
		}
		c.follow(f, e, now)
	}
	c.sumParts()
	slices.SortFunc(lost, func(a, b *tracked) int { return cmp.Compare(a.entry.Path, b.entry.Path) })
	return lost
}

// follow takes what a listing says of a file.
func (c *catalog) follow(f *tracked, e Entry, now time.Time) {
	if f.entry != e {
		c.changed[filepath.Dir(e.Path)] = now
	}
	f.entry = e
	c.files[e.Path] = f
	if now.Sub(f.nextAt) >= c.settle {
		f.trusted = f.next
		f.next, f.nextAt = e.Size, now
	}
	if c.settle == 0 {
		f.trusted = e.Size
	}
}

func (c *catalog) sumParts() {
	clear(c.parts)
	for path, f := range c.files {
		if f.kind == partFile {
			c.parts[filepath.Dir(path)] += f.trusted
		}
	}
}

// beside returns a function that gives the trusted sizes of the files in a file's folder.
func (c *catalog) beside(f *tracked) func(name string) (int64, bool) {
	return func(name string) (int64, bool) {
		part := c.files[filepath.Join(filepath.Dir(f.entry.Path), name)]
		if part == nil {
			return 0, false
		}
		return part.trusted, true
	}
}

func (c *catalog) stampOf(f *tracked) stamp {
	s := stamp{size: f.trusted, mod: f.entry.Mod}
	if f.state != finished {
		s.parts = c.parts[filepath.Dir(f.entry.Path)]
	}
	return s
}

// due returns the files of reads to read, oldest first: those with something new since they were read last.
func (c *catalog) due() (files []*tracked) {
	for _, f := range c.files {
		if f.kind == readFile && f.trusted > 0 && (!f.wasRead || f.more || f.retry() || f.forbidden() || c.stampOf(f) != f.stamp) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *tracked) int {
		return cmp.Or(a.entry.Mod.Compare(b.entry.Mod), cmp.Compare(a.entry.Path, b.entry.Path))
	})
	return files
}

// Bounds of how many files are read by turns. What has been read of a file and not passed on waits in memory until
// its next turn, so a folder of thousands of files, found all at once, is read a few at a time.
const (
	maxUnderWay = 32
	// newestTurns are for the newest files, which are those that a sequencer writes now: they don't
	// wait for what was there before.
	newestTurns = 16
)

// turns returns those of the files that are due, oldest first, that are read now: those of which a part was read, those that
// could not be opened, the newest, and as many of the oldest as there are free slots. later says that others have to wait.
func turns(due []*tracked) (now []*tracked, later bool) {
	slots := maxUnderWay
	for _, f := range due {
		if f.more {
			slots--
		}
	}
	for i, f := range due {
		switch {
		case f.more || f.forbidden() || len(due)-i <= newestTurns:
		case slots > newestTurns:
			slots--
		default:
			later = true
			continue
		}
		now = append(now, f)
	}
	return now, later
}

// retry reports whether reading is worth another try after an error: what was read may have been in the middle of being written.
func (f *tracked) retry() bool { return f.err != nil && f.state == growing }

// forbidden reports whether a file could not be read for want of a right to, which may be given without a change of the file.
func (f *tracked) forbidden() bool { return f.state == broken && errors.Is(f.err, fs.ErrPermission) }

// reading notes that a file is read as it is.
func (c *catalog) reading(f *tracked) {
	again := f.wasRead && f.err != nil && c.stampOf(f) == f.stamp
	f.wasRead, f.more, f.stamp = true, false, c.stampOf(f)
	if !again {
		f.state = growing
		f.err = nil
	}
}

// failed notes that a file can't be read further, and returns true when that is
// to be believed and is news: the file is as it was when it could not be read
// before.
func (f *tracked) failed(err error) bool {
	if f.err == nil {
		f.err = err
		return false
	}
	f.err = err
	news := f.state != broken
	f.state = broken
	return news
}

// unread returns the files in folders that are not finished; nil is all folders. Nothing is missing of a file that nothing was written to.
func (c *catalog) unread(dirs map[string]bool) (files []*tracked) {
	for path, f := range c.files {
		if f.kind == readFile && f.state != finished && f.entry.Size > 0 && (dirs == nil || dirs[filepath.Dir(path)]) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *tracked) int { return cmp.Compare(a.entry.Path, b.entry.Path) })
	return files
}

// lastChange is when something last changed in folders; nil is all folders.
func (c *catalog) lastChange(dirs map[string]bool) (at time.Time) {
	for dir, t := range c.changed {
		if t.After(at) && (dirs == nil || dirs[dir]) {
			at = t
		}
	}
	return at
}
