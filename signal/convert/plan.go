package convert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/runinfo"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// plan is what a scan of all inputs has found: where each read is and what the
// outputs must be able to hold.
type plan struct {
	inputs  []*input
	entries []entry
	runs    []*runPlan
	reasons []string // that POD5 reads give, beyond the standard ones

	known map[any]int // runs by what files say of them: *pod5.RunInfo, *fast5.Run or readGroup
	has   fast5Fields // that any FAST5 read has
	// otherTags are descriptions in FAST5 files whose tags are not those that the
	// output keeps of the run.
	otherTags map[*fast5.Run]bool
	ids       map[[16]byte]struct{}
	names     map[string]struct{} // read ids that are no UUID
}

// entry is a read. A read takes some 80 bytes of memory together with its id.
type entry struct {
	at      uint64
	input   int32
	run     int32
	channel uint32
}

// readGroup is a run in a BLOW5 file.
type readGroup struct{ input, group int }

// runPlan is a run of the outputs.
type runPlan struct {
	id    string
	input string            // the first file that has it
	info  *pod5.RunInfo     // from a POD5 file, or for a POD5 target
	attr  map[string]string // from a BLOW5 file, or for a BLOW5 target
	fast5 bool              // from a FAST5 file
	rate  float64           // samples a second
}

// scan inspects every read of the inputs for a target format.
func scan(ctx context.Context, paths []string, to Format) (p *plan, err error) {
	p = &plan{known: make(map[any]int), otherTags: make(map[*fast5.Run]bool), ids: make(map[[16]byte]struct{}), names: make(map[string]struct{})}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for i, path := range paths {
		in, err := openInput(path)
		if err != nil {
			return p, err
		}
		p.inputs = append(p.inputs, in)
		err = in.scan(ctx, func(f found) error {
			if err := p.newID(f.id, to); err != nil {
				return err
			}
			run, err := p.run(i, f, to)
			if err != nil {
				return err
			}
			if f.reason != "" && !slices.Contains(standardReasons, f.reason) && !slices.Contains(p.reasons, f.reason) {
				p.reasons = append(p.reasons, f.reason)
			}
			p.has.add(f.has)
			p.entries = append(p.entries, entry{at: f.at, input: int32(i), run: int32(run), channel: f.channel})
			return nil
		})
		if err != nil {
			return p, fmt.Errorf("%s: %w", path, err)
		}
	}
	return p, nil
}

func (p *plan) close() {
	for _, in := range p.inputs {
		in.close()
	}
}

// newID refuses an id that has been there.
func (p *plan) newID(id string, to Format) error {
	raw, ok := uuid.Parse(id)
	var seen bool
	if ok {
		_, seen = p.ids[raw]
		p.ids[raw] = struct{}{}
	} else {
		if to == POD5 {
			return fmt.Errorf("read %q: POD5 names reads by UUID, and this is none: convert to BLOW5, or rename the read", id)
		}
		_, seen = p.names[id]
		p.names[id] = struct{}{}
	}
	if seen {
		return fmt.Errorf("read %s occurs twice: give each recording once, or take the read out with slow5tools or pod5 filter", id)
	}
	return nil
}

// run finds the run of a read among those of the outputs, or adds it.
func (p *plan) run(input int, f found, to Format) (int, error) {
	key := f.description(input)
	i, ok := p.known[key]
	if !ok {
		r, err := p.newRun(input, f, to)
		if err != nil {
			return 0, err
		}
		if i, err = p.merge(r, to); err != nil {
			return 0, err
		}
		p.known[key] = i
		if have := p.runs[i].info; f.fast5 != nil && to == POD5 && have.Difference(r.info) != "" {
			p.otherTags[f.fast5] = true
		}
	}
	return i, p.checkRate(i, f)
}

// description is what the file says of a read's run; it is equal for all reads whose
// runs the file describes alike.
func (f found) description(input int) any {
	switch {
	case f.run != nil:
		return f.run
	case f.fast5 != nil:
		return f.fast5
	}
	return readGroup{input, f.group}
}

// checkRate refuses a read whose run has another sample rate, where that is a
// field of the run.
func (p *plan) checkRate(i int, f found) error {
	if info := p.runs[i].info; info != nil && f.run == nil && float64(info.SampleRate) != f.rate {
		return fmt.Errorf("read %s: field %q is %v, which run %s has as %d: POD5 has one for each run", f.id, "sampling_rate", f.rate, p.runs[i].id, info.SampleRate)
	}
	return nil
}

// newRun describes the run of a read for the target.
func (p *plan) newRun(input int, f found, to Format) (*runPlan, error) {
	r := &runPlan{input: p.inputs[input].path, fast5: f.fast5 != nil, rate: f.rate}
	if f.run != nil {
		r.rate = float64(f.run.SampleRate)
	}
	var err error
	switch {
	case f.fast5 != nil:
		var info *pod5.RunInfo
		if info, err = fast5RunInfo(f, to); err == nil && to == BLOW5 {
			r.attr, err = runinfo.Attributes(info)
		} else {
			r.info = info
		}
	case f.run != nil && to == POD5:
		r.info = f.run
	case f.run != nil:
		r.attr, err = runinfo.Attributes(f.run)
	case to == POD5:
		r.info, err = p.inputs[input].blow.runInfo(f, r.input)
	default:
		r.attr = p.inputs[input].blow.r.Header().Groups[f.group]
	}
	if err != nil {
		return nil, err
	}
	switch {
	case f.fast5 != nil:
		r.id = f.fast5.ID
	case f.run != nil:
		r.id = f.run.AcquisitionID
	case r.info != nil:
		r.id = r.info.AcquisitionID
	default:
		info, _ := runinfo.FromAttributes(r.attr)
		r.id = info.AcquisitionID
	}
	if r.id == "" {
		r.id = fallbackRunID(r.input, f.group)
	}
	return r, nil
}

// merge finds a run that is described alike, or adds one. Files of one run describe
// it alike; in POD5, which knows a run by its id, they must.
func (p *plan) merge(r *runPlan, to Format) (int, error) {
	for i, have := range p.runs {
		if have.id != r.id {
			continue
		}
		if to == BLOW5 {
			// A read group has one sample rate, which is none of its attributes.
			if maps.Equal(have.attr, r.attr) && have.rate == r.rate {
				return i, nil
			}
			continue
		}
		if field := difference(have, r); field != "" {
			return 0, fmt.Errorf("run %s: field %q is not what %s says: convert the files separately", r.id, field, have.input)
		}
		return i, nil
	}
	p.runs = append(p.runs, r)
	return len(p.runs) - 1, nil
}

// difference names a field in which two runs differ. In FAST5 files of one run
// temperatures and the like may differ among the tags, as they were when each file
// was begun: the first of them are kept.
func difference(a, b *runPlan) string {
	if !a.fast5 || !b.fast5 {
		return a.info.Difference(b.info)
	}
	x, y := *a.info, *b.info
	x.TrackingID, x.ContextTags = y.TrackingID, y.ContextTags
	return x.Difference(&y)
}

// output is a file to write and the reads that go into it.
type output struct {
	name    string // without its extension
	entries []entry
}

// outputs divides the reads among files.
func (p *plan) outputs(by Split) ([]output, error) {
	switch {
	case by.Reads > 0:
		var outs []output
		for part := range slices.Chunk(p.entries, by.Reads) {
			outs = append(outs, output{fmt.Sprintf("part-%04d", len(outs)+1), part})
		}
		return outs, nil
	case by.Run:
		return p.divide(func(e entry) string { return fileName(p.runs[e.run].id) },
			func(a, b entry) int { return strings.Compare(p.runs[a.run].id, p.runs[b.run].id) })
	case by.Channel:
		return p.divide(func(e entry) string { return fmt.Sprintf("channel-%04d", e.channel) },
			func(a, b entry) int { return int(int64(a.channel) - int64(b.channel)) })
	}
	return []output{{entries: p.entries}}, nil
}

// divide puts reads that compare equal into one file, in their order.
func (p *plan) divide(name func(entry) string, compare func(a, b entry) int) ([]output, error) {
	slices.SortStableFunc(p.entries, compare)
	var outs []output
	seen := make(map[string]bool)
	for start, i := 0, 1; i <= len(p.entries); i++ {
		if i < len(p.entries) && compare(p.entries[start], p.entries[i]) == 0 {
			continue
		}
		n := name(p.entries[start])
		if seen[n] {
			return nil, fmt.Errorf("two runs would be written to %s: their ids differ only in characters that a file name can't have", n)
		}
		seen[n] = true
		outs = append(outs, output{n, p.entries[start:i]})
		start = i
	}
	return outs, nil
}

// fileName keeps of a run's id what any file system takes in a name.
func fileName(id string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, id)
	if len(clean) > 200 {
		clean = clean[:200]
	}
	return "run-" + clean
}
