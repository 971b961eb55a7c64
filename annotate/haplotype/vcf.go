package haplotype

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/porestream/porestream/vcf"
)

// Tag is the INFO and the FORMAT field that consequences are written to.
const Tag = "BCSQ"

// Select says whether the consequences of a record are to be called; a record that is not selected takes no part in
// haplotypes either.
type Select func(*vcf.Record) bool

// Choose makes a Select for records with the given header. It may return nil, for all.
type Choose func(*vcf.Header) (Select, error)

// Annotator writes consequences to the records of a VCF stream: INFO/BCSQ, and for each sample FORMAT/BCSQ, whose bits
// say which haplotype has which of them. It is for one stream and one goroutine.
type Annotator struct {
	genes  *Genes
	opts   Options
	logger *slog.Logger
	choose Choose // nil: all
	skip   bool
	chosen Select // nil: all

	// Skipped counts records with errors that were passed on as they are.
	Skipped int

	caller *Caller
	done   []*site
	chrom  string
	pos    int
}

// NewAnnotator returns an annotator. choose may be nil. If skipErrors is set, a record that does not fit the reference
// or has no phase is logged, counted and passed on without consequences, instead of ending the stream.
func NewAnnotator(g *Genes, opts Options, choose Choose, skipErrors bool, logger *slog.Logger) *Annotator {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Annotator{genes: g, opts: opts, choose: choose, skip: skipErrors, logger: logger}
}

// Declare adds the fields to the header.
func (a *Annotator) Declare(h *vcf.Header) error {
	var err error
	if a.caller, err = newCaller(a.genes, a.opts, len(h.Samples)); err != nil {
		return err
	}
	if a.choose != nil {
		if a.chosen, err = a.choose(h); err != nil {
			return err
		}
	}
	kind := "Haplotype-aware"
	if a.opts.Local {
		kind = "Local"
	}
	h.AddInfo(Tag, ".", "String", kind+" consequence annotation as BCFtools/csq writes it. Format: Consequence|gene|transcript|biotype|strand|amino_acid_change|dna_change")
	if len(h.Samples) > 0 {
		h.AddFormat(Tag, ".", "Integer", "Bitmask of indexes to INFO/"+Tag+", with interleaved first/second haplotype")
	}
	return nil
}

// Counts tell what was left out so far.
func (a *Annotator) Counts() Counts { return a.caller.Counts }

// Push takes the next record and returns those whose consequences are known.
func (a *Annotator) Push(rec *vcf.Record) ([]*vcf.Record, error) {
	s, err := a.site(rec)
	if err == nil {
		err = a.checkOrder(rec)
	}
	if err == nil {
		a.done, err = a.caller.push(a.done[:0], s)
	}
	if err != nil && a.skip {
		a.logger.Warn("record is passed on without "+Tag, "line", rec.Line(), "error", err)
		a.Skipped++
		a.done, err = a.caller.push(a.done[:0], &site{payload: rec, contig: a.caller.contig, pos: max(0, rec.Pos-1), skip: true})
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", rec.Chrom, rec.Pos, err)
	}
	return a.records(a.done), nil
}

// Flush returns the records still held back.
func (a *Annotator) Flush() ([]*vcf.Record, error) {
	a.done = a.caller.flush(a.done[:0])
	return a.records(a.done), nil
}

// checkOrder refuses a record before the one before it: its haplotypes may be gone.
func (a *Annotator) checkOrder(rec *vcf.Record) error {
	if rec.Chrom == a.chrom && rec.Pos < a.pos && !a.opts.Local {
		return fmt.Errorf("comes after position %d: sort the file by position, or use the local rules", a.pos)
	}
	a.chrom, a.pos = rec.Chrom, rec.Pos
	return nil
}

// records writes what was found to the records.
func (a *Annotator) records(done []*site) []*vcf.Record {
	out := make([]*vcf.Record, len(done))
	for i, s := range done {
		out[i] = s.payload.(*vcf.Record)
		a.annotate(out[i], s)
	}
	return out
}

// annotate writes the calls of s to rec.
func (a *Annotator) annotate(rec *vcf.Record, s *site) {
	if len(s.calls) == 0 {
		rec.Info.Delete(Tag) // of an earlier run
		dropFormat(rec)
		return
	}
	b := a.caller.buf[:0]
	for i := range s.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.calls[i].append(b)
	}
	a.caller.buf = b
	rec.Info.Set(Tag, string(b))
	dropFormat(rec)
	if s.masksUsed == 0 {
		return
	}
	rec.Format = append(slices.Clip(rec.Format), Tag)
	for i := range rec.Samples {
		values := slices.Clip(rec.Samples[i])
		for len(values) < len(rec.Format)-1 {
			values = append(values, ".")
		}
		rec.Samples[i] = append(values, maskText(s.masks[i*a.caller.width:][:s.masksUsed]))
	}
}

// maskText is the value of FORMAT/BCSQ.
func maskText(masks []uint32) string {
	if len(masks) == 1 && masks[0] < 10 {
		return "0123456789"[masks[0] : masks[0]+1]
	}
	var b []byte
	for i, m := range masks {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(m), 10)
	}
	return string(b)
}

// dropFormat removes FORMAT/BCSQ of an earlier run.
func dropFormat(rec *vcf.Record) {
	i := slices.Index(rec.Format, Tag)
	if i < 0 {
		return
	}
	rec.Format = slices.Delete(slices.Clone(rec.Format), i, i+1)
	for j, values := range rec.Samples {
		if i < len(values) {
			rec.Samples[j] = slices.Delete(slices.Clone(values), i, i+1)
		}
	}
}

// site makes a site of a record.
func (a *Annotator) site(rec *vcf.Record) (*site, error) {
	s := &site{payload: rec, pos: rec.Pos - 1}
	g := a.genes.genome.Contig(rec.Chrom)
	if g == nil {
		return nil, fmt.Errorf("contig %q is not in the reference", rec.Chrom)
	}
	s.contig = a.genes.contigs[g.Name]
	switch {
	case rec.Pos < 1 || len(rec.Alt) == 0:
		s.skip = true
	case len(rec.Alt) == 1 && (rec.Alt[0][0] == '*' || len(rec.Alt[0]) > 1 && rec.Alt[0][1] == '*'):
		s.skip = true // no alternate allele
	case a.chosen != nil:
		s.skip = !a.chosen(rec)
	}
	if s.skip || s.contig == nil {
		s.skip = true
		return s, nil
	}
	s.text = make([][]byte, 1+len(rec.Alt))
	s.alleles = make([][]byte, len(s.text))
	s.text[0] = []byte(rec.Ref)
	for i, alt := range rec.Alt {
		s.text[i+1] = []byte(alt)
	}
	for i, t := range s.text {
		s.alleles[i] = bytes.ToUpper(t)
	}
	s.rlen = referenceLength(rec)
	if len(rec.Samples) == 0 {
		return s, nil
	}
	return s, s.genotypes(rec)
}

// referenceLength is how many bases of the reference a record is about.
func referenceLength(rec *vcf.Record) int {
	n := len(rec.Ref)
	named := slices.ContainsFunc(rec.Alt, func(alt string) bool { return alt[0] == '<' })
	if !named {
		return n
	}
	if v, ok := rec.Info.Get("END"); ok {
		if end, err := strconv.Atoi(v); err == nil && end >= rec.Pos {
			return max(n, end-rec.Pos+1)
		}
	}
	return n
}

// genotypes reads GT of all samples.
func (s *site) genotypes(rec *vcf.Record) error {
	at := slices.Index(rec.Format, "GT")
	if at < 0 {
		return nil
	}
	s.phased = make([]bool, len(rec.Samples))
	ends := make([]int, len(rec.Samples))
	var all vcf.Genotype
	for i, values := range rec.Samples {
		begun := len(all)
		if at < len(values) {
			var err error
			if all, err = vcf.AppendGenotype(all, values[at], len(rec.Alt)); err != nil {
				return fmt.Errorf("sample %d: %w", i+1, err)
			}
		}
		ends[i] = len(all)
		s.ploidy = max(s.ploidy, len(all)-begun)
	}
	s.alts = make([]int, s.ploidy*len(rec.Samples))
	begun := 0
	for i, end := range ends {
		own, called := s.alts[i*s.ploidy:(i+1)*s.ploidy], all[begun:end]
		begun = end
		for j := range own {
			own[j] = noAllele
		}
		if len(called) == 0 && len(own) > 0 {
			own[0] = missing
		}
		s.phased[i] = called.Ordered()
		for j, a := range called {
			if own[j] = a.Number; a.Number == vcf.MissingAllele {
				own[j] = missing
			}
		}
	}
	return nil
}
