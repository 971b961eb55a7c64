package pipeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/wholefile"
)

// references are the newest events of type reference. Their documents are kept as they
// came, which takes less than what they say, and are read when a file is written.
type references map[referencePlace]reference

type referencePlace struct {
	sample, contig string
	pos            int64
}

type reference struct {
	revision    uint64
	provisional bool
	record      stream.Record
	read        bool  // it was made of reads
	withheld    bool  // it isn't listed
	end         int64 // the last position that it says something of
}

// olderThan reports whether an event takes the place of r: one of the end that of a provisional one, else one of a higher revision.
func (r reference) olderThan(ref *event.Reference) bool {
	if r.provisional != ref.Provisional && r.revision > 0 {
		return r.provisional
	}
	return ref.Revision > r.revision
}

func (r references) add(rec stream.Record) error {
	ref, err := event.DecodeReference(rec)
	if ref != nil {
		r.put(ref, rec, false)
	}
	return err
}

// put takes in the event of a record.
func (r references) put(ref *event.Reference, rec stream.Record, withheld bool) {
	place := referencePlace{ref.Sample, ref.Stretch.Contig, ref.Stretch.Pos}
	if r[place].olderThan(ref) {
		end := ref.Stretch.End
		if n := len(ref.Blocks); n > 0 {
			end = max(end, ref.Blocks[n-1].End)
		}
		if withheld {
			rec = stream.Record{} // as of variants
		}
		r[place] = reference{ref.Revision, ref.Provisional, rec, showsReads(ref), withheld, end}
	}
}

// showsReads reports whether the record of a stretch differs from that of a stretch without reads.
func showsReads(ref *event.Reference) bool {
	return slices.ContainsFunc(ref.Blocks, func(b event.ReferenceBlock) bool { return b.Depth > 0 || b.Quality > 0 }) ||
		slices.ContainsFunc(ref.Callable, func(s event.CallableSpan) bool { return s.Callability != "N" && s.Callability != "NO_COVERAGE" })
}

// Within refuses a genome that lacks places of which something is said of a sample, or has other bases where something was called: a file by it would leave them out unsaid, or be of
// another genome.
func (f *Fold) Within(sample string, g *genome.Genome) error {
	for p, ref := range f.references {
		if p.sample == sample && !ref.withheld {
			if err := within(g, p.contig, ref.end); err != nil {
				return err
			}
		}
	}
	for _, v := range f.Variants(sample, g.Rank) {
		if err := hasAllele(g, &v.Allele); err != nil {
			return err
		}
	}
	return nil
}

// hasAllele refuses an allele of another reference.
func hasAllele(g *genome.Genome, a *event.Allele) error {
	contig, start := g.Contig(a.Contig), int(a.Pos)-1
	switch {
	case contig == nil:
		return fmt.Errorf("no contig %q, where %s>%s was called at %d: give the reference that the processors have", a.Contig, a.Ref, a.Alt, a.Pos)
	case start < 0 || start+len(a.Ref) > len(contig.Seq) || !strings.EqualFold(string(contig.Seq[start:start+len(a.Ref)]), a.Ref):
		return fmt.Errorf("no %s at %s:%d, where %s>%s was called: give the reference that the processors have", a.Ref, a.Contig, a.Pos, a.Ref, a.Alt)
	}
	return nil
}

func within(g *genome.Genome, contig string, end int64) error {
	switch c := g.Contig(contig); {
	case c == nil:
		return fmt.Errorf("no contig %q, and the topic has records of it: give the reference that the processors have", contig)
	case end > int64(len(c.Seq)):
		return fmt.Errorf("no %s:%d, and the topic has records of it: give the reference that the processors have", contig, end)
	}
	return nil
}

// ReferenceRecords holds the records of a sample's places without a variant, region by region.
type ReferenceRecords struct {
	sample  string
	genome  *genome.Genome
	regions map[regionPlace][]stream.Record // by position
}

type regionPlace struct {
	contig string
	index  int
}

// ReferenceRecords returns the records of a sample's places without a variant.
func (f *Fold) ReferenceRecords(sample string, g *genome.Genome) ReferenceRecords {
	places := make([]referencePlace, 0, len(f.references))
	for p, ref := range f.references {
		if p.sample == sample && !ref.withheld {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b referencePlace) int {
		return cmp.Or(cmp.Compare(a.contig, b.contig), cmp.Compare(a.pos, b.pos))
	})
	t := ReferenceRecords{sample: sample, genome: g, regions: make(map[regionPlace][]stream.Record)}
	for _, p := range places {
		key := regionPlace{p.contig, int(p.pos-1) / align.RegionWidth}
		t.regions[key] = append(t.regions[key], f.references[p].record)
	}
	return t
}

// each passes the regions of the genome to emit, in order. It is an error if a region
// has no records.
func (t ReferenceRecords) each(emit func(contig *genome.Contig, start, end int, events []*event.Reference) error) error {
	for _, c := range t.genome.Contigs {
		for i := 0; i*align.RegionWidth < len(c.Seq); i++ {
			start, end := align.RegionBounds(i, len(c.Seq))
			events, _, err := t.events(c.Name, i)
			if err != nil {
				return err
			}
			if len(events) == 0 {
				return fmt.Errorf("sample %s: nothing was reported of %s:%d-%d: its runs have not ended, or its processors were started without --gvcf or --callable",
					t.sample, c.Name, start+1, end)
			}
			if err := emit(c, start, end, events); err != nil {
				return err
			}
		}
	}
	return nil
}

// events are those of a region: at the end of the sample, and before.
func (t ReferenceRecords) events(contig string, region int) (final, provisional []*event.Reference, err error) {
	for _, rec := range t.regions[regionPlace{contig, region}] {
		ref, err := event.DecodeReference(rec)
		switch {
		case err != nil:
			return nil, nil, err
		case ref.Provisional:
			provisional = append(provisional, ref)
		default:
			final = append(final, ref)
		}
	}
	return final, provisional, nil
}

// blocks are those of the events of a region.
func (t ReferenceRecords) blocks(contig *genome.Contig, start, end int, events []*event.Reference) ([]variant.Block, error) {
	var blocks []variant.Block
	for _, e := range events {
		for _, b := range e.Blocks {
			block := variant.Block{
				Span:  variant.Span{Start: int(b.Pos) - 1, End: int(b.End)},
				Depth: int(b.Depth), MinDepth: int(b.MinDepth), Quality: int(b.Quality),
			}
			for _, l := range b.PhredLikelihoods {
				block.Likelihoods = append(block.Likelihoods, int(l))
			}
			if len(block.Likelihoods) < 2 || block.Start < start || block.End <= block.Start || block.End > end {
				return nil, fmt.Errorf("sample %s: what was reported of %s:%d-%d can't be a block", t.sample, contig.Name, b.Pos, b.End)
			}
			blocks = append(blocks, block)
		}
	}
	return blocks, nil
}

// WriteGVCF writes the variants of one sample, which are in the order of the file, and
// the blocks between them: the same bytes as pore call of the same reads. anyAllele is
// [variant.AnyAllele] or [variant.NonReference]; version as of WriteVCF.
func WriteGVCF(w io.Writer, caller variant.Config, version vcf.Version, anyAllele string, records ReferenceRecords, variants []*event.Variant) error {
	header := variant.Header(records.genome.Contigs, records.sample, caller)
	declareStatus(header, variants)
	_ = header.SetVersion(version) // of a higher version if the file needs one, and says so: results aren't given up for it
	variant.DeclareBlocks(header, anyAllele)
	out, err := vcf.NewWriter(w, header)
	if err != nil {
		return err
	}
	rows := variant.NewRows(anyAllele, out.Write)
	err = records.each(func(contig *genome.Contig, start, end int, events []*event.Reference) error {
		var calls []*streampb.Call
		for len(variants) > 0 && variants[0].Allele.Contig == contig.Name && int(variants[0].Allele.Pos) <= end {
			calls = append(calls, variants[0].ToCall())
			variants = variants[1:]
		}
		blocks, err := records.blocks(contig, start, end, events)
		if err != nil {
			return err
		}
		if len(blocks) == 0 && len(calls) == 0 {
			return fmt.Errorf("sample %s: no block was reported of %s:%d-%d: the processors were started without --gvcf", records.sample, contig.Name, start+1, end)
		}
		return rows.Add(contig, end, calls, blocks)
	})
	if err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// WriteCallable writes how callable each position of a sample is, as BED: the same
// bytes as pore call of the same reads.
func WriteCallable(w io.Writer, records ReferenceRecords) error {
	buf := bufio.NewWriter(w)
	var contig string
	var last event.CallableSpan
	flush := func() {
		if contig != "" {
			fmt.Fprintf(buf, "%s\t%d\t%d\t%s\n", contig, last.Pos-1, last.End, last.Callability) // its error stays until Flush
		}
	}
	err := records.each(func(c *genome.Contig, start, end int, events []*event.Reference) error {
		at := int64(start) + 1
		for _, e := range events {
			for _, s := range e.Callable {
				if s.Pos != at {
					return fmt.Errorf("sample %s: how callable %s:%d-%d is was not reported", records.sample, c.Name, at, s.Pos-1)
				}
				at = s.End + 1
				if contig == c.Name && last.End+1 == s.Pos && last.Callability == s.Callability {
					last.End = s.End
					continue
				}
				flush()
				contig, last = c.Name, s
			}
		}
		if at != int64(end)+1 {
			return fmt.Errorf("sample %s: how callable %s:%d-%d is was not reported: the processors were started without --callable", records.sample, c.Name, at, end)
		}
		return nil
	})
	if err != nil {
		return err
	}
	flush()
	return buf.Flush()
}

// writeReference writes the files that the survey asks for. Their names begin with
// prefix.
func (r *Result) writeReference(prefix func(name string) string, sample string, variants []*event.Variant) error {
	if !r.Survey.GVCF && !r.Survey.Callable {
		return nil
	}
	records := r.Fold.ReferenceRecords(sample, r.Genome)
	if len(r.Definitions) > 0 {
		if err := wholefile.Write(prefix("diplotypes.tsv"), func(w *bufio.Writer) error {
			return NewNamer(r.Genome, r.Definitions).Write(w, r.Fold, sample)
		}); err != nil {
			return err
		}
	}
	if r.Survey.GVCF {
		if err := wholefile.Write(prefix("variants.g.vcf"), func(w *bufio.Writer) error {
			return WriteGVCF(w, r.Variant, r.VCFVersion, r.Survey.Symbol(), records, variants)
		}); err != nil {
			return err
		}
	}
	if r.Survey.Callable {
		return wholefile.Write(prefix("callable.bed"), func(w *bufio.Writer) error { return WriteCallable(w, records) })
	}
	return nil
}
