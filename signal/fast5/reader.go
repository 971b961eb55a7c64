package fast5

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/porestream/porestream/signal/hdf5"
	"github.com/porestream/porestream/signal/internal/mapped"
	"github.com/porestream/porestream/signal/internal/text"
)

// Signature is how FAST5 files begin, like all HDF5 files.
const Signature = hdf5.Signature

// Run is what a file says of a run. Reads that say the same share one.
type Run struct {
	ID string // run_id
	// Tracking and Context are the attributes of the groups tracking_id and
	// context_tags.
	Tracking, Context map[string]string
}

// Reader reads a FAST5 file. Its methods may be called from several goroutines at
// once.
type Reader struct {
	mapping *mapped.File // nil for a Reader over bytes in memory
	file    *hdf5.File
	root    *hdf5.Object
	// reads are the groups of reads: of a multi-read file in the root group, of a
	// single-read one in /Raw/Reads.
	reads  []hdf5.Link
	parent *hdf5.Object
	single *folder // UniqueGlobalKey of a single-read file
	info   string  // file_version

	work sync.Pool

	mu      sync.Mutex
	runs    map[string][]*Run  // by id
	byGroup map[[2]uint64]*Run // by the addresses of both groups, which reads may share
}

// Open opens the FAST5 file at path. Errors, here and from the methods, don't name
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

// NewReader reads a FAST5 file that is in memory. The bytes must not change while
// the Reader is in use.
func NewReader(file []byte) (*Reader, error) {
	r := new(Reader)
	if err := r.init(file); err != nil {
		return nil, err
	}
	return r, nil
}

// Close releases the file. No other method may be under way or follow.
func (r *Reader) Close() error {
	return r.mapping.Close()
}

func (r *Reader) init(data []byte) (err error) {
	r.runs, r.byGroup = make(map[string][]*Run), make(map[[2]uint64]*Run)
	if r.file, err = hdf5.Open(data); err != nil {
		return err
	}
	if r.root, err = r.file.Root(); err != nil {
		return err
	}
	attrs, err := r.root.Attributes()
	if err != nil {
		return err
	}
	r.info = attribute(attrs, "file_version").String()
	top, err := r.root.Links()
	if err != nil {
		return err
	}
	return r.findReads(top, attribute(attrs, "file_type").String())
}

// findReads distinguishes multi-read files from single-read ones.
func (r *Reader) findReads(top []hdf5.Link, fileType string) error {
	has := func(name string) bool {
		return slices.ContainsFunc(top, func(l hdf5.Link) bool { return l.Name == name })
	}
	for _, l := range top {
		if strings.HasPrefix(l.Name, "read_") {
			r.reads = append(r.reads, l)
		}
	}
	switch {
	case len(r.reads) > 0:
		r.parent = r.root
		return nil
	case fileType == "bulk" || has("IntermediateData") || has("MultiplexData"):
		return errBulk
	case has("Raw") && has("UniqueGlobalKey"):
		return r.findSingle()
	case fileType == "multi-read":
		return nil // an empty one
	}
	return errors.New("holds no reads: no group read_* and no group /Raw with /UniqueGlobalKey, as in multi-read and single-read FAST5 files")
}

var errBulk = errors.New("is a bulk FAST5 file: the current of its channels is not divided into reads; play it back with MinKNOW to get reads")

func (r *Reader) findSingle() (err error) {
	raw, err := r.root.Open("Raw")
	if err != nil {
		return err
	}
	if r.parent, err = raw.Open("Reads"); hdf5.NotThere(err) {
		links, err := raw.Links()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(links, func(l hdf5.Link) bool { return strings.HasPrefix(l.Name, "Channel_") }) {
			return errBulk
		}
		return errors.New("holds no reads: /Raw has no group Reads")
	}
	if err != nil {
		return err
	}
	key, err := r.root.Open("UniqueGlobalKey")
	if err != nil {
		return err
	}
	around, err := folderOf(key)
	if err != nil {
		return fmt.Errorf("/UniqueGlobalKey %w", err)
	}
	r.single = &around
	if r.reads, err = r.parent.Links(); err == nil && len(r.reads) == 0 {
		err = errors.New("holds no reads: /Raw/Reads is empty")
	}
	return err
}

// Len returns the number of reads.
func (r *Reader) Len() int { return len(r.reads) }

// Forget drops the list of reads. It is for a reader that may stay open for long and of
// whose methods only SamplesAt is called from here on. Len is 0 from here on.
func (r *Reader) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads, r.runs, r.byGroup = nil, nil, nil
}

// Version is the version of its layout that the file states, "1.0" or "2.3", or "unknown"
// if it states none.
func (r *Reader) Version() string { return cmp.Or(text.Clip(r.info), "unknown") }

// Compression names the filters of the first read's signal.
func (r *Reader) Compression() (name string) {
	_ = r.mapping.Do(func() error { // a file that can't be read says so when it is read
		if len(r.reads) == 0 {
			return nil
		}
		_, _, signal, err := r.objects(0)
		if err == nil {
			name = cmp.Or(strings.Join(signal.Filters(), "+"), "none")
		}
		return nil
	})
	return cmp.Or(name, "unknown")
}

// Read returns read i, 0 <= i < Len().
func (r *Reader) Read(i int) (rd *Read, err error) {
	err = r.mapping.Do(func() error {
		if rd, err = r.read(i); err != nil {
			return fmt.Errorf("group %q: %w", text.Clip(r.reads[i].Name), err)
		}
		return nil
	})
	return rd, err
}

// Samples appends the samples of a read. On an error it returns dst unchanged.
func (r *Reader) Samples(rd *Read, dst []int16) ([]int16, error) {
	return r.SamplesAt(rd.At, rd.Samples, dst)
}

// SamplesAt appends the n samples of the read whose At is given. On an error it
// returns dst unchanged.
func (r *Reader) SamplesAt(at uint64, n int, dst []int16) (out []int16, err error) {
	out = dst
	err = r.mapping.Do(func() error {
		o, err := r.file.Object(at)
		if err != nil {
			return err
		}
		signal, err := o.Dataset()
		if err != nil {
			return err
		}
		if signal.Len() != n {
			return fmt.Errorf("dataset at byte %d: holds %d samples, not %d: the file has changed", at, signal.Len(), n)
		}
		w, ok := r.work.Get().(*hdf5.Workspace)
		if !ok {
			w = new(hdf5.Workspace)
		}
		defer r.work.Put(w)
		out, err = signal.AppendInt16(dst, w)
		return err
	})
	r.mapping.Used(2 * n) // packed, they are fewer
	return out, err
}

// folder is a group with its links, which are listed once.
type folder struct {
	*hdf5.Object
	links []hdf5.Link
}

func folderOf(o *hdf5.Object) (folder, error) {
	if !o.IsGroup() {
		return folder{}, errors.New("is no group")
	}
	links, err := o.Links()
	return folder{o, links}, err
}

// child opens an object that may be there; otherwise it is nil.
func (f folder) child(name string) (*hdf5.Object, error) {
	link, ok := hdf5.Find(f.links, name)
	if !ok {
		return nil, nil
	}
	return f.Follow(link)
}

// needs opens an object that every read has.
func (f folder) needs(name string) (*hdf5.Object, error) {
	o, err := f.child(name)
	if o == nil && err == nil {
		err = fmt.Errorf("has no %s", name)
	}
	return o, err
}

// objects returns a read's group, the group with its attributes and its signal.
func (r *Reader) objects(i int) (group folder, raw *hdf5.Object, signal *hdf5.Dataset, err error) {
	o, err := r.parent.Follow(r.reads[i])
	if err != nil {
		return folder{}, nil, nil, err
	}
	if group, err = folderOf(o); err != nil {
		return folder{}, nil, nil, err
	}
	within := group
	if r.single == nil {
		if o, err = group.needs("Raw"); err != nil {
			return folder{}, nil, nil, err
		}
		if within, err = folderOf(o); err != nil {
			return folder{}, nil, nil, fmt.Errorf("the object Raw %w", err)
		}
	}
	data, err := within.needs("Signal")
	if err != nil {
		return folder{}, nil, nil, err
	}
	signal, err = data.Dataset()
	return group, within.Object, signal, err
}

func attribute(attrs []hdf5.Attribute, name string) hdf5.Value {
	for _, a := range attrs {
		if a.Name == name {
			return a.Value
		}
	}
	return hdf5.Value{}
}

func (r *Reader) read(i int) (*Read, error) {
	group, raw, signal, err := r.objects(i)
	if err != nil {
		return nil, err
	}
	around := group
	if r.single != nil {
		around = *r.single
	}
	own, err := group.Attributes()
	if err != nil {
		return nil, err
	}
	a, err := raw.Attributes()
	if err != nil {
		return nil, err
	}
	rd := &Read{Samples: signal.Len(), At: signal.Address(), PoreType: attribute(own, "pore_type").String()}
	if err := rd.setRaw(a); err != nil {
		return nil, err
	}
	channel, err := around.needs("channel_id")
	if err != nil {
		return nil, err
	}
	if a, err = channel.Attributes(); err != nil {
		return nil, err
	}
	if err := rd.setChannel(a); err != nil {
		return nil, err
	}
	rd.Run, err = r.run(around, attribute(own, "run_id").String())
	return rd, err
}

// run returns the run of a read: around is the group with its descriptions, and id
// is what the read itself says.
func (r *Reader) run(around folder, id string) (*Run, error) {
	var at [2]uint64
	var groups [2]*hdf5.Object
	for i, name := range []string{"tracking_id", "context_tags"} {
		g, err := around.child(name)
		if err != nil {
			return nil, err
		}
		if g != nil { // files of before 2017 have no context_tags
			groups[i], at[i] = g, g.Address()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, ok := r.byGroup[at]; ok && groups[0] != nil && (id == "" || id == run.ID) {
		return run, nil
	}
	run := new(Run)
	var err error
	if run.Tracking, err = tags(groups[0]); err != nil {
		return nil, fmt.Errorf("tracking_id: %w", err)
	}
	if run.Context, err = tags(groups[1]); err != nil {
		return nil, fmt.Errorf("context_tags: %w", err)
	}
	run.ID = cmp.Or(id, run.Tracking["run_id"])
	switch err := text.Check(run.ID); {
	case err != nil:
		return nil, fmt.Errorf("attribute %q %w", "run_id", err)
	case run.ID == "":
		return nil, errors.New(`has no attribute "run_id", neither of its own nor in tracking_id`)
	}
	for _, have := range slices.Backward(r.runs[run.ID]) {
		if maps.Equal(have.Tracking, run.Tracking) && maps.Equal(have.Context, run.Context) {
			run = have
			break
		}
	}
	if !slices.Contains(r.runs[run.ID], run) {
		r.runs[run.ID] = append(r.runs[run.ID], run)
	}
	r.byGroup[at] = run
	return run, nil
}

// tags are the attributes of a group as text.
func tags(group *hdf5.Object) (map[string]string, error) {
	if group == nil {
		return nil, nil
	}
	all, err := group.Attributes()
	if err != nil {
		return nil, err
	}
	m := make(map[string]string, len(all))
	for _, a := range all {
		s := a.Value.String()
		if err := cmp.Or(text.Check(a.Name), text.Check(s)); err != nil {
			return nil, fmt.Errorf("attribute %q %w (%q)", text.Clip(a.Name), err, text.Clip(s))
		}
		m[a.Name] = s
	}
	return m, nil
}
