package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Player sends the called reads of files that are there to their ends, each read once by its
// id. All runs are ended at the end, so who sees one end knows all.
type Player struct {
	// Check, if set, checks the runs when all reads are sent and no run has ended: its error ends Play.
	Check func(runs []*streampb.Run) error
	// Controls, if set, names the negative controls of a run; a barcode may stand for the sample of it.
	Controls func(*streampb.Run) []*streampb.Control

	files *ReadFiles
	paths []string
	stdin io.Reader
	to    *ingest.Direct
	log   *slog.Logger
	seen  map[string]*seen // by run

	mu      sync.Mutex
	runs    map[string]*streampb.Run
	skipped int
}

// Paths lists the files of reads below the roots, in order; - stays as it is.
func (f *ReadFiles) Paths() ([]string, error) {
	var paths []string
	for _, root := range f.Roots {
		if root == "-" {
			paths = append(paths, root)
			continue
		}
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, reason(err))
		}
		l, err := list([]string{root}, f)
		if err != nil {
			return nil, err
		}
		for path, err := range l.faults {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var found []string
		for _, e := range l.entries {
			if classify(e.Path, f) == readFile {
				found = append(found, e.Path)
			}
		}
		if len(found) == 0 && info.IsDir() {
			return nil, fmt.Errorf("%s: holds no FASTQ, SAM or BAM file", root)
		}
		slices.Sort(found)
		paths = append(paths, found...)
	}
	return slices.Compact(paths), nil
}

// NewPlayer prepares to play files to a writer; stdin is what - means.
func NewPlayer(files *ReadFiles, stdin io.Reader, to *ingest.Direct, log *slog.Logger) (*Player, error) {
	paths, err := files.Paths()
	if err != nil {
		return nil, err
	}
	return &Player{
		files: files, paths: paths, stdin: stdin, to: to, log: log,
		seen: make(map[string]*seen), runs: make(map[string]*streampb.Run),
	}, nil
}

// Runs are the runs so far, by id. Once one has ended downstream these are all.
func (p *Player) Runs() []*streampb.Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	var runs []*streampb.Run
	for _, id := range slices.Sorted(maps.Keys(p.runs)) {
		runs = append(runs, p.runs[id])
	}
	return runs
}

// Skipped counts the reads so far that can't be used.
func (p *Player) Skipped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skipped
}

// Play sends the reads, and ends their runs. It is called once.
func (p *Player) Play(ctx context.Context) error {
	defer func() {
		for _, s := range p.seen {
			s.close()
		}
	}()
	for _, path := range p.paths {
		if err := p.file(ctx, path); err != nil {
			return err
		}
	}
	runs := p.Runs()
	if len(runs) == 0 {
		return errors.New("there are no reads in the files")
	}
	if p.Check != nil {
		if err := p.Check(runs); err != nil {
			return err
		}
	}
	for _, run := range runs {
		if err := p.to.End(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

func (p *Player) file(ctx context.Context, path string) error {
	in, name := p.stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, reason(err))
		}
		defer f.Close()
		in, name = f, path
	}
	r, err := input.NewReader(in, cram.Options{Reference: p.files.Reference, Names: filepath.Base(name)})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	barcode := input.BarcodeOf(path)
	for {
		read, err := r.Next()
		if _, record := errors.AsType[*input.RecordError](err); record {
			p.skip(fmt.Errorf("%s: %w", name, err))
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found := p.files.take(read, name, barcode)
		if found == nil {
			continue
		}
		err = p.send(ctx, found)
		if skipped, is := errors.AsType[*SkippedError](err); is {
			p.skip(skipped.Err)
			continue
		}
		if err != nil {
			return err
		}
	}
}

func (p *Player) skip(err error) {
	p.mu.Lock()
	p.skipped++
	n := p.skipped
	p.mu.Unlock()
	if n <= loggedSkipped {
		p.log.Error("a read can't be used; the others go on", "err", err)
	}
}

// send sends a read, unless it was sent before.
func (p *Player) send(ctx context.Context, r *calledRead) error {
	id := r.Run()
	run := p.runs[id] // nobody else writes it
	if run == nil {
		var err error
		if run, err = r.naming.Describe(r.Read); err != nil {
			return r.skipped(err)
		}
		if p.Controls != nil {
			run.Controls = p.Controls(run)
		}
		if _, err := stream.EncodeRun(run); err != nil {
			return r.skipped(fmt.Errorf("run %q: %w", id, err))
		}
		if err := p.to.Begin(ctx, run); err != nil {
			return err
		}
		p.mu.Lock()
		p.runs[id] = run
		p.mu.Unlock()
		p.seen[id] = newSeen(os.TempDir(), freshReads)
	}
	known, sum, err := p.seen[id].has(r.ID())
	if err != nil {
		return err
	}
	if known {
		if sum != r.Sum() {
			return r.skipped(fmt.Errorf("read %s is here with other bases than it was sent with, which stay", r.ID()))
		}
		return nil
	}
	if err := r.Fits(run); err != nil {
		return err
	}
	if err := p.seen[id].add(r.ID(), r.Sum()); err != nil {
		return err
	}
	return p.to.Put(ctx, r.packed)
}

// Contents says what a file or folder holds; a file holds one of both.
type Contents struct{ Signal, Reads bool }

// Holds classifies a file by its content, a folder by its files. - is a pipe of reads. A file that isn't recognised as
// one of reads may be signal.
func Holds(path string) (Contents, error) {
	if path == "-" {
		return Contents{Reads: true}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return Contents{}, fmt.Errorf("%s: %w", path, reason(err))
	}
	if !info.IsDir() {
		f, err := os.Open(path)
		if err != nil {
			return Contents{}, fmt.Errorf("%s: %w", path, reason(err))
		}
		defer f.Close()
		reads := input.Recognises(f)
		return Contents{Signal: !reads, Reads: reads}, nil
	}
	holds := func(files Files) (bool, error) {
		l, err := list([]string{path}, files)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(l.entries, func(e Entry) bool { return classify(e.Path, files) == readFile }), nil
	}
	var c Contents
	if c.Signal, err = holds(signalFiles{}); err != nil {
		return c, err
	}
	c.Reads, err = holds(&ReadFiles{Roots: []string{path}, Failed: true})
	return c, err
}
