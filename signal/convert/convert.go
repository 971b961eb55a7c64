package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Format is a format to write.
type Format string

// The formats that are written.
const (
	POD5  Format = "pod5"
	BLOW5 Format = "blow5"
)

// Split says how reads are divided among files. At most one of its fields is set;
// none means one file.
type Split struct {
	Run     bool // a file for each run
	Channel bool // a file for each channel
	Reads   int  // files of so many reads, in the order of the inputs
}

// Options say what to write.
type Options struct {
	// Format is that of the output; empty means that of its extension.
	Format Format
	// Split, if set, makes the output a folder.
	Split Split
	// Force replaces files that exist.
	Force bool
	// Software is the program's name and version, which POD5 keeps.
	Software string
	// Progress, if set, is called after each read with how many of all are written.
	Progress func(done, total int64)
}

// Loss counts the reads that have a field which the target format can't hold.
type Loss struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	Reads int64  `json:"reads"`
}

// Report says what was written.
type Report struct {
	Files   []string `json:"files"`
	Reads   int64    `json:"reads"`
	Samples int64    `json:"samples"`
	Losses  []Loss   `json:"losses"` // by field
}

// Run converts files to one file, or with a split to files in a folder. Nothing
// appears under the names of the outputs before all of them are complete. A file
// that exists is an error that wraps fs.ErrExist.
func Run(ctx context.Context, inputs []string, to string, opts Options) (Report, error) {
	split := opts.Split != Split{}
	if opts.Format == "" {
		switch {
		case filepath.Ext(to) == ".pod5":
			opts.Format = POD5
		case filepath.Ext(to) == ".blow5":
			opts.Format = BLOW5
		default:
			return Report{}, fmt.Errorf("%s: the format to write is not clear: name it, or end the name with .pod5 or .blow5", to)
		}
	}
	if !split && !opts.Force {
		// Most mistakes are found before hours of work.
		if _, err := os.Lstat(to); err == nil {
			return Report{}, existsError(to)
		}
	}
	p, err := scan(ctx, inputs, opts.Format)
	if err != nil {
		return Report{}, err
	}
	defer p.close()
	outs, err := p.outputs(opts.Split)
	if err != nil {
		return Report{}, err
	}
	dir := filepath.Dir(to)
	if split {
		dir = to
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return Report{}, reason(dir, err)
		}
	}
	c := &conversion{plan: p, opts: opts, losses: make(losses), total: int64(len(p.entries))}
	defer c.discard()
	for _, out := range outs {
		path := to
		if split {
			path = filepath.Join(dir, out.name+"."+string(opts.Format))
		}
		if err := c.write(ctx, path, out.entries); err != nil {
			return Report{}, err
		}
	}
	if err := c.publish(); err != nil {
		return Report{}, err
	}
	c.report.Losses = c.losses.list()
	return c.report, nil
}

// conversion is one under way.
type conversion struct {
	plan   *plan
	opts   Options
	losses losses
	drafts []*draft
	report Report
	total  int64
}

// write writes one file, under another name for now.
func (c *conversion) write(ctx context.Context, path string, entries []entry) error {
	d, err := newDraft(path, c.opts.Force)
	if err != nil {
		return err
	}
	c.drafts = append(c.drafts, d)
	if err := c.fill(ctx, d, entries); err != nil {
		return err
	}
	return d.complete()
}

func (c *conversion) fill(ctx context.Context, d *draft, entries []entry) (err error) {
	// Errors of a reader name its file, those of a writer are named here.
	here := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("writing %s: %w", d.path, err)
	}
	var t target
	if c.opts.Format == POD5 {
		var scratch io.ReadWriteSeeker
		if scratch, err = d.scratch(); err == nil {
			t, err = newPOD5(d.file, scratch, c.plan, c.opts, c.losses)
		}
	} else {
		t, err = newBLOW5(d.file, c.plan, entries, c.losses)
	}
	if err != nil {
		return here(err)
	}
	// Reads are unpacked on all processors and written in their order.
	buffers := make([][]int16, workers(len(entries)))
	err = inOrder(ctx, len(entries), func(g, i int, turn func() bool) error {
		return c.copy(t, entries[i], &buffers[g], turn, here)
	})
	if err != nil {
		return err
	}
	return here(t.close())
}

// copy hands a read from its file to a target when it is its turn. buf is used for its
// samples.
func (c *conversion) copy(t target, e entry, buf *[]int16, turn func() bool, here func(error) error) error {
	in := c.plan.inputs[e.input]
	var writing error
	err := in.read(e.at, (*buf)[:0], func(samples []int16, add adder) error {
		*buf = samples
		if !turn() {
			return nil // another has failed
		}
		if writing = add(t, e.run); writing == nil {
			c.count(len(samples))
		}
		return writing
	})
	switch {
	case writing != nil:
		return here(writing)
	case err != nil:
		return fmt.Errorf("%s: %w", in.path, err)
	}
	return nil
}

func (c *conversion) count(samples int) {
	c.report.Reads++
	c.report.Samples += int64(samples)
	if c.opts.Progress != nil {
		c.opts.Progress(c.report.Reads, c.total)
	}
}

// publish gives all files their names.
func (c *conversion) publish() error {
	for _, d := range c.drafts {
		if err := d.publish(); err != nil {
			return err
		}
		c.report.Files = append(c.report.Files, d.path)
	}
	return nil
}

// discard removes what was not published.
func (c *conversion) discard() {
	for _, d := range c.drafts {
		d.discard()
	}
}

// losses counts, by field and reason.
type losses map[Loss]int64

func (l losses) add(field, why string) { l[Loss{Field: field, Why: why}]++ }

func (l losses) list() []Loss {
	var out []Loss
	for _, loss := range slices.SortedFunc(maps.Keys(l), func(a, b Loss) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Why, b.Why)) }) {
		loss.Reads = l[loss]
		out = append(out, loss)
	}
	return out
}
