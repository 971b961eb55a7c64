package pipeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
)

// Namer names the alleles of samples by what a topic has of them.
type Namer struct {
	genome *genome.Genome
	genes  []*diplotype.Definitions
	least  diplotype.Least
}

// NewNamer names alleles by definitions that are of the genome, with the evidence that pore diplotype asks for by itself.
func NewNamer(g *genome.Genome, genes []*diplotype.Definitions) *Namer {
	return &Namer{genome: g, genes: genes, least: diplotype.DefaultLeast()}
}

// Naming is what a sample has of a gene.
type Naming struct {
	diplotype.Row
	// Status is PROVISIONAL while anything that it rests on is, or isn't there, else FINAL.
	Status string `json:"status"`
}

// Text is the naming as a line for people.
func (n *Naming) Text() string {
	text := fmt.Sprintf("%s %s %s %s", n.Status, n.Sample, n.Gene, cmp.Or(strings.Join(n.Diplotypes, " or "), "no diplotype"))
	for _, part := range []struct {
		name string
		list []string
	}{{"also possible", n.AlsoPossible}, {"not examined", n.Unexamined}, {"missing", n.Missing}, {"unknown bases", n.UnknownBases}} {
		if len(part.list) > 0 {
			text += fmt.Sprintf("; %s: %s", part.name, strings.Join(part.list, ", "))
		}
	}
	if n.Reason != "" {
		text += "; " + n.Reason
	}
	return text
}

// JSON is the naming's document, without a line end.
func (n *Naming) JSON() ([]byte, error) { return json.Marshal(n) }

// Write writes the table of samples: what pore diplotype says of the gVCFs that WriteGVCF writes.
func (n *Namer) Write(w *bufio.Writer, f *Fold, samples ...string) error {
	if _, err := fmt.Fprintln(w, diplotype.TableHeader); err != nil {
		return err
	}
	for _, sample := range samples {
		for _, d := range n.genes {
			named, err := n.name(f, sample, d)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, named.Row); err != nil {
				return err
			}
		}
	}
	return nil
}

// name names what a sample has of a gene, from the records that a gVCF of the topic has.
func (n *Namer) name(f *Fold, sample string, d *diplotype.Definitions) (*Naming, error) {
	contig := n.genome.Contig(d.Contig)
	if contig == nil {
		return nil, d.On(n.genome)
	}
	own := diplotype.NewSample(d, n.least)
	rows := variant.NewRows(variant.AnyAllele, func(r *vcf.Record) error { return own.Add(r, 0) })
	records := f.geneRecords(sample, d, n.genome)
	variants := f.sorted(n.genome.Rank, func(v *event.Variant) bool { return v.Sample == sample && v.Allele.Contig == d.Contig })
	first, last := reach(d)
	settled := true
	var known []variant.Span // since the sample's end
	for i := 0; i*align.RegionWidth < len(contig.Seq); i++ {
		start, end := align.RegionBounds(i, len(contig.Seq))
		var calls []*streampb.Call
		for len(variants) > 0 && int(variants[0].Allele.Pos) <= end {
			v := variants[0]
			row := variant.Span{Start: int(v.Allele.Pos) - 1, End: int(v.Allele.Pos) - 1 + len(v.Allele.Ref)}
			switch {
			case !goesOn(v):
				known = append(known, row)
			case meets(d, int64(row.Start)+1, int64(row.End)):
				settled = false
			}
			calls = append(calls, v.ToCall())
			variants = variants[1:]
		}
		var blocks []variant.Block
		if start < last && first <= end {
			closed, open, err := records.events(d.Contig, i)
			if err != nil {
				return nil, err
			}
			if blocks, err = records.blocks(contig, start, end, closed); err != nil {
				return nil, err
			}
			for _, b := range blocks {
				known = append(known, b.Span)
			}
			early, err := records.blocks(contig, start, end, open)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, without(early, variant.Union(known))...)
			slices.SortFunc(blocks, func(a, b variant.Block) int { return a.Start - b.Start })
		}
		if err := rows.Add(contig, end, calls, blocks); err != nil {
			return nil, err
		}
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	named := &Naming{Row: d.Row(sample, own.Call()), Status: streampb.CallStatus_PROVISIONAL.String()}
	if settled && holdAll(variant.Union(known), d) {
		named.Status = streampb.CallStatus_FINAL.String()
	}
	return named, nil
}

// without are blocks but for what spans lie over, which are ascending and disjoint: what is known since the end counts instead of what was said before, and both
// are there while partitions of a topic are read one after the other.
func without(blocks []variant.Block, spans []variant.Span) []variant.Block {
	var list []variant.Block
	for _, b := range blocks {
		i, _ := slices.BinarySearchFunc(spans, b.Start, func(s variant.Span, at int) int { return cmp.Compare(s.End, at+1) })
		for ; i < len(spans) && spans[i].Start < b.End; i++ {
			if before := b; spans[i].Start > b.Start {
				before.End = spans[i].Start
				list = append(list, before)
			}
			b.Start = spans[i].End
		}
		if b.Start < b.End {
			list = append(list, b)
		}
	}
	return list
}

// holdAll reports whether spans, ascending and disjoint, hold all bases of a gene's positions.
func holdAll(spans []variant.Span, d *diplotype.Definitions) bool {
	return !slices.ContainsFunc(d.Positions, func(p diplotype.Position) bool {
		i, _ := slices.BinarySearchFunc(spans, p.Pos, func(s variant.Span, pos int) int { return cmp.Compare(s.End, pos) })
		return i == len(spans) || spans[i].Start > p.Pos-1 || spans[i].End < p.Pos-1+len(p.Ref)
	})
}

// geneRecords are those records of places without a variant that reach a gene's positions.
func (f *Fold) geneRecords(sample string, d *diplotype.Definitions, g *genome.Genome) ReferenceRecords {
	first, last := reach(d)
	near := &Fold{references: make(references)}
	for place, ref := range f.references {
		if place.sample == sample && place.contig == d.Contig && place.pos <= int64(last) && ref.end >= int64(first) {
			near.references[place] = ref
		}
	}
	return near.ReferenceRecords(sample, g)
}

// reach is from the first position of a gene to the last, 1-based.
func reach(d *diplotype.Definitions) (first, last int) {
	first = d.Positions[0].Pos
	for _, p := range d.Positions {
		first, last = min(first, p.Pos), max(last, p.Pos+len(p.Ref)-1)
	}
	return first, last
}

// meets reports whether a position of a gene lies within a stretch of its contig, 1-based, or overlaps it.
func meets(d *diplotype.Definitions, start, end int64) bool {
	return slices.ContainsFunc(d.Positions, func(p diplotype.Position) bool {
		return int64(p.Pos) <= end && start < int64(p.Pos+len(p.Ref))
	})
}

// concerns reports whether an event says something of a position of a gene.
func concerns(d *diplotype.Definitions, e *event.Reference) bool {
	if e.Stretch.Contig != d.Contig {
		return false
	}
	return meets(d, e.Stretch.Pos, e.Stretch.End) || slices.ContainsFunc(e.Blocks, func(b event.ReferenceBlock) bool { return meets(d, b.Pos, b.End) })
}

// DiplotypeFold follows a variants topic and says what changes of the diplotypes of its samples. What it says last is a function of the records alone.
type DiplotypeFold struct {
	namer *Namer
	fold  *Fold
	said  map[[2]string]string // by sample and gene
}

// NewDiplotypeFold begins with an empty topic.
func NewDiplotypeFold(namer *Namer, partitions int32) *DiplotypeFold {
	return &DiplotypeFold{namer: namer, fold: NewFold(partitions), said: make(map[[2]string]string)}
}

// Fold is what is known of the genes' surroundings.
func (f *DiplotypeFold) Fold() *Fold { return f.fold }

// Add takes one record and returns the genes of its sample of which something else is said now.
func (f *DiplotypeFold) Add(rec stream.Record) ([]*Naming, error) {
	return f.take(rec, true, f.fold.Add)
}

// Withhold takes a record that isn't wanted, as [Fold.Withhold] does, and returns what Add does, of genes of which something was said: of a sample that isn't wanted
// there is nothing to take back.
func (f *DiplotypeFold) Withhold(rec stream.Record) ([]*Naming, error) {
	return f.take(rec, false, func(rec stream.Record) (*event.Variant, error) { return nil, f.fold.Withhold(rec) })
}

func (f *DiplotypeFold) take(rec stream.Record, wanted bool, put func(stream.Record) (*event.Variant, error)) ([]*Naming, error) {
	ref, err := event.DecodeReference(rec)
	if err != nil {
		return nil, err
	}
	var v *event.Variant
	if ref == nil {
		if v, _, err = event.Decode(rec); err != nil {
			return nil, err
		}
	}
	sample, touched, kept := f.namer.touched(v, ref)
	if !kept {
		return nil, nil
	}
	if _, err := put(rec); err != nil {
		return nil, err
	}
	var out []*Naming
	for _, d := range touched {
		if !wanted && f.said[[2]string{sample, d.Gene}] == "" {
			continue
		}
		named, err := f.namer.name(f.fold, sample, d)
		if err != nil {
			return nil, err
		}
		key, text := [2]string{sample, d.Gene}, named.Text()
		if f.said[key] != text {
			f.said[key] = text
			out = append(out, named)
		}
	}
	return out, nil
}

// touched are the genes at whose positions an event says something; kept: the event is of a region that has some, or of the region beside.
func (n *Namer) touched(v *event.Variant, ref *event.Reference) (sample string, genes []*diplotype.Definitions, kept bool) {
	for _, d := range n.genes {
		first, last := reach(d)
		near := func(pos int64) bool {
			return int(pos) > first-2*align.RegionWidth && int(pos) < last+2*align.RegionWidth
		}
		switch {
		case v != nil && v.Allele.Contig == d.Contig:
			sample, kept = v.Sample, kept || near(v.Allele.Pos)
			if meets(d, v.Allele.Pos, v.Allele.Pos+int64(len(v.Allele.Ref))-1) {
				genes = append(genes, d)
			}
		case ref != nil && ref.Stretch.Contig == d.Contig:
			sample, kept = ref.Sample, kept || near(ref.Stretch.Pos)
			if concerns(d, ref) {
				genes = append(genes, d)
			}
		}
	}
	return sample, genes, kept
}
