package aligned

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"github.com/biogo/hts/sam"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vrs"
)

// Options say what is called, and how.
type Options struct {
	Variant variant.Config
	Survey  variant.SurveyConfig
	Targets Targets
	// Sample is whose reads are called: those of the read groups with that SM. Empty: all.
	Sample string
	// Haplotag asks for the haplotypes of reads.
	Haplotag bool
	// CalledBy is the basecalling model of alignments that name none; empty: nobody knows.
	CalledBy string
	// NetworkName is what the caller's network is called in errors. Strict refuses alignments of
	// reads that it was not made for, or that name no basecalling model.
	NetworkName string
	Strict      bool
	// Primers are those that the reads' amplicons were made with: bases within them are no evidence. nil: none.
	Primers *primer.Scheme
	// RunsByFlowCell takes the flow cell of a read group that names no run for the run of its reads.
	RunsByFlowCell bool
	// Threads is how many regions are called at a time; at least one.
	Threads int
}

// Region is what was found in a region.
type Region struct {
	Contig *genome.Contig
	End    int // of its core
	Calls  []*streampb.Call
	variant.Survey
	// Haplotypes are those of the reads, if they were asked for.
	Haplotypes map[variant.SegmentKey]variant.HaplotypeTag
	// Models are the basecalling models of the reads that begin in the region.
	Models []variant.ModelReads
	// LeftOut is how many haplotypes were not put to the reads.
	LeftOut variant.LeftOut

	state   *variant.Region              // nil: no read lies there
	support map[string][]variant.Support // by run
	first   int                          // of the alleles that support is about
}

// Counts is what became of the records of a file.
type Counts struct {
	Records      int
	Unmapped     int
	Secondary    int
	Duplicates   int // and records that failed quality checks, and parents of duplex reads
	LowMapping   int // mapping quality below MinMappingQuality
	WithoutBases int // none at all, or none that is aligned to a base of the reference
	Elsewhere    int // not in the targets
	OtherSamples int // of read groups of another sample, or of none, where one was asked for
	Spliced      int // CIGAR operation N
	Beyond       int // not within their reference sequence
	Contradicted int // by their CIGAR, which is missing or doesn't fit the bases
	Segments     int // applied
	Regions      int // called
	// Ends counts the alignments by how their ends lie in primers, if there is a scheme.
	Ends [primer.Kinds]int
	// FirstFault names the first alignment that is spliced, beyond or contradicted.
	FirstFault string
}

// Faulty is how many alignments can't be used for what they say of themselves.
func (n *Counts) Faulty() int { return n.Spliced + n.Beyond + n.Contradicted }

// LogValue implements [slog.LogValuer]: what became of the alignments, by reason.
func (n Counts) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("alignments", n.Records), slog.Int("used in regions", n.Segments)}
	for _, reason := range []struct {
		name  string
		count int
	}{
		{"unmapped", n.Unmapped}, {"secondary", n.Secondary}, {"duplicate or failed", n.Duplicates}, {"low mapping quality", n.LowMapping},
		{"without bases", n.WithoutBases}, {"elsewhere", n.Elsewhere}, {"of other samples", n.OtherSamples}, {"spliced", n.Spliced},
		{"beyond the reference", n.Beyond}, {"contradicted by the CIGAR", n.Contradicted},
	} {
		if reason.count > 0 {
			attrs = append(attrs, slog.Int(reason.name, reason.count))
		}
	}
	if n.FirstFault != "" {
		attrs = append(attrs, slog.String("first fault", n.FirstFault))
	}
	return slog.GroupValue(attrs...)
}

// Call calls the variants of a file with the engine of the stream and passes every
// region of the targets to emit, in the order of Contigs, also those without a
// call. Coordinate-sorted input, when the header says so, is called while it is
// read, and a region is forgotten when it is done; other input is held until its
// end. With an index only the targets are read. A file can be called once.
//
// Errors name the record and its place; nothing that emit has been given is then
// complete.
func (a *Alignments) Call(ctx context.Context, opts Options, emit func(*Region) error) (Counts, error) {
	if err := opts.Variant.Validate(); err != nil {
		return Counts{}, fmt.Errorf("calling variants: %w", err)
	}
	return a.run(ctx, opts, opts.call, emit)
}

// Examples passes the candidates of a file, in the order of Contigs, to emit; see
// [variant.Region.Examples].
func (a *Alignments) Examples(ctx context.Context, cfg variant.Config, emit func(variant.Candidate, []float32) error) (Counts, error) {
	return a.regions(ctx, cfg, func(r *variant.Region) error { return r.Examples(emit) })
}

// Support counts the reads of each run that show alleles, by contig and by the 0-based position of their first base, ascending, called or not; see
// [variant.Region.RunSupport]. Of opts it goes by Variant, Sample, Primers, Threads and RunsByFlowCell. emit is given the counts of a run at the alleles of a contig from
// one on; at alleles that it isn't given there is no read of the run.
func (a *Alignments) Support(ctx context.Context, opts Options, alleles map[string][]vrs.Edit, emit func(contig, run string, first int, counts []variant.Support)) (Counts, error) {
	if err := opts.Variant.Validate(); err != nil {
		return Counts{}, fmt.Errorf("counting reads: %w", err)
	}
	opts.Targets = make(Targets)
	for contig, list := range alleles {
		for _, e := range list {
			opts.Targets[contig] = append(opts.Targets[contig], variant.Span{Start: e.Start, End: e.Start + 1})
		}
		opts.Targets[contig] = variant.Union(opts.Targets[contig])
	}
	count := func(j *job, work *variant.Workspace) (*Region, error) {
		p := j.place
		list := alleles[p.contig.Name]
		at := func(pos int) int {
			i, _ := slices.BinarySearchFunc(list, pos, func(e vrs.Edit, pos int) int { return cmp.Compare(e.Start, pos) })
			return i
		}
		out := &Region{Contig: p.contig, End: p.end, first: at(p.start)}
		if list = list[out.first:at(p.end)]; j.state == nil {
			return out, nil
		}
		j.state.Use(work)
		out.support = make(map[string][]variant.Support)
		for _, run := range j.state.Runs() {
			out.support[run] = j.state.RunSupport(run, list)
		}
		return out, nil
	}
	return a.run(ctx, opts, count, func(r *Region) error {
		for _, run := range slices.Sorted(maps.Keys(r.support)) {
			emit(r.Contig.Name, run, r.first, r.support[run])
		}
		return nil
	})
}

// Errors counts how often the reads of a file err against a reference that has no variants to them.
func (a *Alignments) Errors(ctx context.Context, cfg variant.Config) (variant.ErrorRates, error) {
	var tally variant.ErrorTally
	_, err := a.regions(ctx, cfg, func(r *variant.Region) error {
		tally.Add(r)
		return nil
	})
	return tally.Rates(), err
}

// regions passes the regions that reads lie in to emit.
func (a *Alignments) regions(ctx context.Context, cfg variant.Config, emit func(*variant.Region) error) (Counts, error) {
	whole := func(j *job, _ *variant.Workspace) (*Region, error) { return &Region{state: j.state}, nil }
	return a.run(ctx, Options{Variant: cfg}, whole, func(r *Region) error {
		if r.state == nil {
			return nil
		}
		return emit(r.state)
	})
}

// run passes what work makes of every region to emit.
func (a *Alignments) run(ctx context.Context, opts Options, work func(*job, *variant.Workspace) (*Region, error), emit func(*Region) error) (Counts, error) {
	c := a.newCaller(opts)
	if err := a.known(opts.Targets); err != nil {
		return c.n, err
	}
	indexed := opts.Targets != nil && a.index != nil && a.Sorted()
	if indexed {
		if err := a.seekTo(c.plan); err != nil {
			return c.n, err
		}
	}

	threads := max(1, opts.Threads)
	group, ctx := errgroup.WithContext(ctx)
	c.todo = make(chan *job)
	c.order = make(chan *job, 2*threads)
	group.Go(func() error {
		defer close(c.todo)
		defer close(c.order)
		if err := c.read(ctx); err != nil {
			return err
		}
		return c.finish(ctx, len(c.plan.regions))
	})
	for range threads {
		group.Go(func() error {
			var memory variant.Workspace
			for j := range c.todo {
				j.result, j.err = work(j, &memory)
				close(j.done)
			}
			return nil
		})
	}
	group.Go(func() error {
		for j := range c.order {
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if j.err != nil {
				return j.err
			}
			if err := emit(j.result); err != nil {
				return err
			}
			c.emitted++
		}
		return nil
	})
	err := group.Wait()
	c.n.Regions = c.emitted
	return c.n, err
}

// newCaller is what calls from the alignments that the options choose.
func (a *Alignments) newCaller(opts Options) *caller {
	c := &caller{
		alignments: a, opts: opts, plan: newPlan(a.Contigs(), opts.Targets), states: make(map[int]*variant.Region),
		agreement: make([]agreement, len(a.contigs)), basecallers: variant.NewBasecallers(opts.Variant.Network, opts.NetworkName),
		groupModels: make(map[string]string), numbers: make(map[string]uint32),
	}
	c.opts.Variant.Basecallers = c.basecallers
	for _, line := range a.records.Lines() {
		if hts.Is(line, "@RG") {
			id, model := input.GroupModel(line)
			c.groupModels[id] = model
			if opts.RunsByFlowCell && a.runs[id] == "" {
				a.runs[id], _ = hts.Field(line, "PU")
			}
		}
	}
	if opts.Sample != "" {
		c.groups = a.groupsOf(opts.Sample)
	}
	return c
}

// known checks that every contig that may be called is there.
func (a *Alignments) known(targets Targets) error {
	if targets != nil {
		return nil // what isn't there can't be asked for
	}
	for i, c := range a.contigs {
		if c == nil {
			return fmt.Errorf("reading alignments: they are to %s, which isn't in the reference FASTA (it has %s): choose what is there with --region or --bed",
				a.header.Refs()[i].Name(), some(a.genome.Names()))
		}
	}
	return nil
}

// some is a short list of names.
func some(names []string) string {
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) > 3:
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
	return fmt.Sprint(names)
}

// caller is a call under way. Its fields are those of the goroutine that reads, but
// for the channels and emitted.
type caller struct {
	alignments *Alignments
	opts       Options
	plan       *plan
	n          Counts
	agreement  []agreement     // by number of the reference sequence
	groups     map[string]bool // read groups of the sample; nil: all, and reads without one

	basecallers *variant.Basecallers
	groupModels map[string]string // basecalling models by read group
	numbers     map[string]uint32 // of those that were met

	states map[int]*variant.Region // of the regions that may still get segments, by number in the plan
	next   int                     // first region of the plan that is not handed over

	todo    chan *job // to the next free worker
	order   chan *job // to the writer
	emitted int
}

// job is a region that is complete.
type job struct {
	place *place
	state *variant.Region // nil: no read lies there
	done  chan struct{}

	result *Region
	err    error
}

// read applies the records of the file, and hands regions over that a sorted file
// has passed.
func (c *caller) read(ctx context.Context) error {
	a := c.alignments
	sorted := a.Sorted()
	lastRef, lastPos := 0, 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := a.records.Read()
		if errors.Is(err, io.EOF) {
			return c.agree(true)
		}
		if errors.Is(err, hts.ErrCut) || errors.Is(err, cram.ErrCut) {
			return err
		}
		if _, ok := errors.AsType[*cram.ReferenceError](err); ok {
			return fmt.Errorf("reading alignments: %w", err)
		}
		c.n.Records++
		if err != nil {
			return fmt.Errorf("reading alignment %d: %w: the file is damaged or cut off (samtools quickcheck says more)", c.n.Records, err)
		}
		if rec.Flags&sam.Unmapped != 0 || rec.Ref == nil || rec.Pos < 0 {
			c.n.Unmapped++
			continue
		}
		if sorted {
			if rec.Ref.ID() < lastRef || rec.Ref.ID() == lastRef && rec.Pos < lastPos {
				return c.fault(rec, errors.New("the header says that the file is sorted by coordinate, but this alignment comes too late: sort it (samtools sort)"))
			}
			lastRef, lastPos = rec.Ref.ID(), rec.Pos
			if contig := a.contigs[lastRef]; contig != nil {
				if number, ok := c.plan.number[regionKey{contig, lastPos / align.RegionWidth}]; ok {
					if err := c.finish(ctx, number); err != nil {
						return err
					}
				}
			}
		}
		if err := c.take(rec); err != nil {
			return err
		}
	}
}

// fault is an error about a record, with its place.
func (c *caller) fault(rec *sam.Record, err error) error {
	return fmt.Errorf("reading alignment %d, read %q at %s:%d: %w", c.n.Records, rec.Name, rec.Ref.Name(), rec.Pos+1, err)
}

// leaveOut counts a record that can't be used.
func (c *caller) leaveOut(rec *sam.Record, err error) {
	switch {
	case errors.Is(err, hts.ErrNoMatch):
		c.n.WithoutBases++
		return
	case errors.Is(err, hts.ErrSpliced):
		c.n.Spliced++
	case errors.Is(err, hts.ErrBeyond):
		c.n.Beyond++
		c.agreement[rec.Ref.ID()].beyond++
	default:
		c.n.Contradicted++
	}
	if c.n.FirstFault == "" {
		c.n.FirstFault = fmt.Sprintf("alignment %d, read %q at %s:%d: %v", c.n.Records, rec.Name, rec.Ref.Name(), rec.Pos+1, err)
	}
}

// isDuplexParent reports whether a duplex read was made of this one and its complement: Dorado writes all three, and they are
// one molecule.
func isDuplexParent(rec *sam.Record) bool {
	pair, ok := samtag.Int(rec, "dx")
	return ok && pair == -1
}

// passesOver reports whether a record isn't one to call from, and counts why.
func (c *caller) passesOver(rec *sam.Record, contig *genome.Contig) bool {
	length, _ := rec.Cigar.Lengths()
	switch {
	case rec.Flags&sam.Secondary != 0:
		c.n.Secondary++
	case rec.Flags&(sam.Duplicate|sam.QCFail) != 0 || isDuplexParent(rec):
		c.n.Duplicates++
	case c.groups != nil && !c.groups[group(rec)]:
		c.n.OtherSamples++
	case contig == nil || !c.plan.touches(contig, rec.Pos, rec.Pos+length):
		c.n.Elsewhere++
	case rec.Seq.Length == 0:
		c.n.WithoutBases++
	default:
		return false
	}
	return true
}

// take applies a record that is mapped.
func (c *caller) take(rec *sam.Record) error {
	contig := c.alignments.contigs[rec.Ref.ID()]
	if c.passesOver(rec, contig) {
		return nil
	}
	read, alignment, err := c.alignments.parse(rec, contig)
	if err != nil {
		c.leaveOut(rec, err)
		return nil
	}
	low := int(rec.MapQ) < c.opts.Variant.LeastMappingQuality()
	if low {
		c.n.LowMapping++
		if !c.opts.Survey.Callable {
			return nil
		}
	} else {
		c.agreement[rec.Ref.ID()].add(alignment)
		if err := c.agree(false); err != nil {
			return err
		}
	}
	if c.opts.Primers != nil {
		ends := c.opts.Primers.Trim(alignment)
		c.n.Ends[ends]++
		if ends == primer.Nothing {
			return nil
		}
	}
	segments, err := c.alignments.cutter.Segments(read, alignment, contig.Seq)
	if err != nil {
		return c.fault(rec, err)
	}
	model, err := c.model(rec)
	if err != nil {
		return c.fault(rec, err)
	}
	for _, s := range segments {
		s.Model = model
		region, err := c.at(contig, int(s.GetRegion()))
		if err != nil {
			return err
		}
		if region == nil {
			continue
		}
		if changed, err := region.Apply(s); err != nil {
			return c.fault(rec, err)
		} else if changed && !low {
			c.n.Segments++
		}
	}
	return nil
}

// model is the number of the basecalling model of a record's read; 0 if nothing names it. An
// error means that the model is refused.
func (c *caller) model(rec *sam.Record) (uint32, error) {
	name := c.modelName(rec)
	number, met := c.numbers[name]
	if met {
		return number, nil
	}
	if c.opts.Strict {
		if err := c.basecallers.Refuse(name); err != nil {
			return 0, err
		}
	}
	if stream.ModelNameable(name) {
		number = c.basecallers.Add(name)
	}
	c.numbers[name] = number
	return number, nil
}

// modelName is the basecalling model of a record's read; empty if nothing names it.
func (c *caller) modelName(rec *sam.Record) string {
	name := group(rec)
	model, known := c.groupModels[name]
	if !known {
		model = input.NamedModel(name)
	}
	if model == "" {
		if text, ok := samtag.Text(rec, "DS"); ok {
			model = input.TaggedModel(text)
		}
	}
	return cmp.Or(model, c.opts.CalledBy)
}

// at is the state of a region; nil if it is not in the plan.
func (c *caller) at(contig *genome.Contig, index int) (*variant.Region, error) {
	number, ok := c.plan.number[regionKey{contig, index}]
	if !ok {
		return nil, nil
	}
	if s := c.states[number]; s != nil {
		return s, nil
	}
	region, err := variant.NewRegion(contig, index, c.opts.Variant)
	if err != nil {
		return nil, err
	}
	c.states[number] = region
	return region, nil
}

// finish hands over the regions before the given one.
func (c *caller) finish(ctx context.Context, before int) error {
	for ; c.next < before; c.next++ {
		j := &job{place: &c.plan.regions[c.next], state: c.states[c.next], done: make(chan struct{})}
		delete(c.states, c.next)
		for _, queue := range []chan *job{c.order, c.todo} {
			select {
			case queue <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// call calls a complete region.
func (o *Options) call(j *job, work *variant.Workspace) (*Region, error) {
	p := j.place
	out := &Region{Contig: p.contig, End: p.end}
	survey := o.Survey.Blocks || o.Survey.Callable
	region := j.state
	switch {
	case region == nil && !survey:
		return out, nil
	case region == nil:
		var err error
		if region, err = variant.NewRegion(p.contig, p.index, o.Variant); err != nil {
			return nil, err
		}
	}
	region.Use(work)
	if !p.all {
		region.Restrict(p.within)
	}
	out.Models = region.Models()
	calls, err := region.Finalize()
	if err != nil {
		return nil, fmt.Errorf("calling region %d of %s: %w", p.index, p.contig.Name, err)
	}
	out.LeftOut = region.TakeLeftOut()
	out.Calls = slices.DeleteFunc(calls, func(c *streampb.Call) bool { return !p.holds(c.GetPos()) })
	if o.Haplotag {
		out.Haplotypes = region.HaplotypeTags()
	}
	if !survey {
		return out, nil
	}
	rows := make([]variant.Span, 0, len(out.Calls))
	for _, c := range out.Calls {
		rows = append(rows, variant.Span{Start: int(c.GetPos()) - 1, End: int(c.GetPos()) - 1 + len(c.GetRef())})
	}
	out.Survey = region.Survey(o.Survey, p.within, variant.Union(rows))
	return out, nil
}

// agreement is how far the reads over a reference sequence agree with it.
type agreement struct {
	matches, mismatches int
	within, beyond      int // alignments
	checked             bool
}

func (g *agreement) add(a *align.Alignment) {
	g.within++
	for _, op := range a.Ops {
		switch op.Kind {
		case align.Match:
			g.matches += op.Len
		case align.Mismatch:
			g.mismatches += op.Len
		case align.Insertion, align.Deletion:
		}
	}
}

// Reads that disagree with the reference at more than maxDisagreement of the aligned
// bases are to another one: of unrelated bases three in four differ, of the noisiest
// reads one in seven. It takes a number of bases to say so; at the end of a file,
// fewer.
const (
	maxDisagreement = 0.4
	agreementBases  = 20_000
	agreementFewest = 500
	// A writer that is at fault puts few alignments beyond the end of a sequence; from this
	// many on, and if there are more of them than others, the sequence is another.
	agreementBeyond = 10
)

// agree returns an error if reads are to another reference.
func (c *caller) agree(atEnd bool) error {
	for i := range c.agreement {
		g := &c.agreement[i]
		if atEnd && g.beyond >= agreementBeyond && g.beyond > g.within {
			return fmt.Errorf("reading alignments: %d of %d over %s go beyond its end: they were aligned to another sequence of that name",
				g.beyond, g.beyond+g.within, c.alignments.header.Refs()[i].Name())
		}
		bases := g.matches + g.mismatches
		if g.checked || bases < agreementBases && !(atEnd && bases >= agreementFewest) {
			continue
		}
		g.checked = true
		if share := float64(g.mismatches) / float64(bases); share > maxDisagreement {
			return fmt.Errorf("reading alignments: the reads over %s disagree with the reference FASTA at %.0f %% of their bases: they were aligned to another sequence of that name",
				c.alignments.header.Refs()[i].Name(), 100*share)
		}
	}
	return nil
}
