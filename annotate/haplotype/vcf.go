package haplotype

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Tag is the INFO and the FORMAT field that consequences are written to.
const Tag = "BCSQ"

// Select reports whether the consequences of a record are to be called; a record that is not selected takes no part in
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

	header *vcf.Header
	caller *Caller
	done   []*site
	last   *genome.Contig // of the record before, and its position
	pos    int

	// The contig of the last lookup, if it is in the reference; nil if it has no transcripts.
	name   string
	known  *genome.Contig // nil: it isn't
	contig *contig

	// Memory that is used again.
	genotype vcf.Genotype
	ends     []int
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
	a.header = h
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

// Counts are the numbers of items left out so far.
func (a *Annotator) Counts() Counts { return a.caller.Counts }

// Push takes the next line and appends those whose consequences are known to out.
func (a *Annotator) Push(out *vcf.Lines, row *vcf.Row, number int) error {
	a.done = a.done[:0]
	s := a.caller.memory.sites.one()
	s.row, s.number = row.On(a.caller.memory.bytes.copy(row.Text)), number
	err := a.read(s)
	if err == nil {
		err = a.checkOrder(s)
	}
	if err == nil {
		a.done, err = a.caller.push(a.done, s)
	}
	if err != nil && a.skip {
		a.logger.Warn("record is passed on without "+Tag, "line", number, "error", err)
		a.Skipped++
		passed := a.caller.memory.sites.one() // haplotypes can have a part of s
		*passed = site{row: s.row, number: number, contig: a.caller.contig, pos: max(0, row.Pos-1), skip: true}
		a.done, err = a.caller.push(a.done, passed) // behind what s has let go before it failed
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %w", row.Chrom, row.Pos, err)
	}
	a.write(out)
	return nil
}

// Flush appends the lines still held back.
func (a *Annotator) Flush(out *vcf.Lines) error {
	a.done = a.caller.flush(a.done[:0])
	a.write(out)
	return nil
}

// checkOrder refuses a record before the one before it: its haplotypes may be gone.
func (a *Annotator) checkOrder(s *site) error {
	if a.known == a.last && s.row.Pos < a.pos && !a.opts.Local {
		return fmt.Errorf("comes after position %d: sort the file by position, or use the local rules", a.pos)
	}
	a.last, a.pos = a.known, s.row.Pos
	return nil
}

// write appends the finished lines, with their consequences.
func (a *Annotator) write(out *vcf.Lines) {
	for _, s := range a.done {
		out.Text = append(a.appendLine(out.Text, s), '\n')
		out.Numbers = append(out.Numbers, s.number)
		clear(s.calls)
		*s = site{pos: s.pos} // it holds nothing while others of its memory are in use, and calls of these point to its position
	}
	a.caller.recycle()
}

// tag is Tag as it is searched for in lines.
var tag = []byte(Tag)

// appendLine appends the line of s with its calls. Those of an earlier run go.
func (a *Annotator) appendLine(dst []byte, s *site) []byte {
	if len(s.calls) == 0 && !bytes.Contains(s.row.Text, tag) {
		return append(dst, s.row.Text...)
	}
	columns := s.row.AfterInfo()
	dst = append(dst, s.row.Text[:len(s.row.Text)-len(columns)-len(s.row.Info())]...)
	dst = appendInfo(dst, s)
	if len(columns) == 0 {
		return dst
	}
	format, columns, _ := bytes.Cut(columns[1:], []byte{'\t'})
	old := -1
	if bytes.Contains(format, tag) {
		old = keyIndex(format, tag)
	}
	if s.masksUsed == 0 && old < 0 {
		return append(dst, s.row.AfterInfo()...)
	}
	return a.appendSamples(dst, s, format, columns, old)
}

// appendInfo appends INFO with the calls of s: where there are some already, in their place.
func appendInfo(dst []byte, s *site) []byte {
	info, begun, written := s.row.Info(), len(dst), len(s.calls) == 0
	switch {
	case len(info) == 1 && info[0] == '.':
	case !bytes.Contains(info, tag):
		dst = append(dst, info...)
	default:
		for more := true; more; {
			var field []byte
			field, info, more = bytes.Cut(info, []byte{';'})
			key, _, _ := bytes.Cut(field, []byte{'='})
			mine := bytes.Equal(key, tag)
			if mine && written {
				continue
			}
			if len(dst) > begun {
				dst = append(dst, ';')
			}
			if mine {
				dst, written = s.appendCalls(dst), true
			} else {
				dst = append(dst, field...)
			}
		}
	}
	if !written {
		if len(dst) > begun {
			dst = append(dst, ';')
		}
		dst = s.appendCalls(dst)
	}
	if len(dst) == begun {
		dst = append(dst, '.')
	}
	return dst
}

// appendCalls appends the INFO field.
func (s *site) appendCalls(dst []byte) []byte {
	dst = append(append(dst, Tag...), '=')
	for i := range s.calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.calls[i].append(dst)
	}
	return dst
}

// keyIndex is the place of a key in FORMAT, -1 if it is not there.
func keyIndex(format, key []byte) int {
	for i := 0; ; i++ {
		k, rest, more := bytes.Cut(format, []byte{':'})
		if bytes.Equal(k, key) {
			return i
		}
		if !more {
			return -1
		}
		format = rest
	}
}

// appendSamples appends FORMAT and the samples with the masks of s, if there are any, and without the values of place
// old, if that is not negative.
func (a *Annotator) appendSamples(dst []byte, s *site, format, columns []byte, old int) []byte {
	dst = append(dst, '\t')
	begun := len(dst)
	dst, keys := appendValues(dst, format, old)
	if keys == 1 && string(dst[begun:]) == "." {
		keys = 0
	}
	if s.masksUsed > 0 {
		if keys == 0 {
			dst = dst[:begun]
		} else {
			dst = append(dst, ':')
		}
		dst = append(dst, Tag...)
	} else if keys == 0 && len(dst) == begun {
		dst = append(dst, '.')
	}
	for i := range a.caller.samples {
		var values []byte
		values, columns, _ = bytes.Cut(columns, []byte{'\t'})
		dst = append(dst, '\t')
		begun := len(dst)
		var n int
		dst, n = appendValues(dst, values, old)
		if s.masksUsed == 0 {
			if n == 0 {
				dst = append(dst, '.')
			}
			continue
		}
		for ; n < keys; n++ {
			if n > 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, '.')
		}
		if len(dst) > begun {
			dst = append(dst, ':')
		}
		dst = appendMasks(dst, s.masks[i*a.caller.width:][:s.masksUsed])
	}
	return dst
}

// appendValues appends values that colons separate, without that of place old, and returns how many.
func appendValues(dst, values []byte, old int) ([]byte, int) {
	if old < 0 {
		return append(dst, values...), 1 + bytes.Count(values, []byte{':'})
	}
	n := 0
	for i, more := 0, true; more; i++ {
		var v []byte
		v, values, more = bytes.Cut(values, []byte{':'})
		if i == old {
			continue
		}
		if n > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, v...)
		n++
	}
	return dst, n
}

// appendMasks appends a value of FORMAT/BCSQ.
func appendMasks(dst []byte, masks []uint32) []byte {
	for i, m := range masks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(m), 10)
	}
	return dst
}

// read sets s to what its line says.
func (a *Annotator) read(s *site) error {
	row := &s.row
	s.pos = row.Pos - 1
	if string(row.Chrom) != a.name {
		a.name = string(row.Chrom)
		if a.known, a.contig = a.genes.genome.Contig(a.name), nil; a.known != nil {
			a.contig = a.genes.contigs[a.known.Name]
		}
	}
	if a.known == nil {
		return fmt.Errorf("contig %q is not in the reference", row.Chrom)
	}
	s.contig = a.contig
	switch {
	case row.Pos < 1 || len(row.Alt) == 1 && row.Alt[0] == '.':
		s.skip = true
	case bytes.IndexByte(row.Alt, ',') < 0 && (row.Alt[0] == '*' || len(row.Alt) > 1 && row.Alt[1] == '*'):
		s.skip = true // no alternate allele
	case a.chosen != nil:
		rec, err := a.header.Parse(row.Text, s.number)
		if err != nil {
			return err
		}
		s.skip = !a.chosen(rec)
	}
	if s.skip || s.contig == nil {
		s.skip = true
		return nil
	}
	a.setAlleles(s)
	s.rlen = referenceLength(row)
	if a.caller.samples == 0 {
		return nil
	}
	return a.setGenotypes(s)
}

// setAlleles sets the alleles of s.
func (a *Annotator) setAlleles(s *site) {
	m := &a.caller.memory
	n := 2 + bytes.Count(s.row.Alt, []byte{','})
	s.text = m.texts.take(n)
	s.text[0] = s.row.Ref
	rest := s.row.Alt
	for i := 1; i < n; i++ {
		s.text[i], rest, _ = bytes.Cut(rest, []byte{','})
	}
	s.alleles = s.text
	for i, t := range s.text {
		if !slices.ContainsFunc(t, func(c byte) bool { return c >= 'a' }) {
			continue
		}
		if &s.alleles[0] == &s.text[0] {
			s.alleles = m.texts.copy(s.text)
		}
		s.alleles[i] = bytes.ToUpper(t)
	}
}

// referenceLength is how many bases of the reference a record is about.
func referenceLength(row *vcf.Row) int {
	n := len(row.Ref)
	if row.Alt[0] != '<' && !bytes.Contains(row.Alt, []byte(",<")) {
		return n
	}
	if v, ok := row.InfoValue("END"); ok {
		if end, err := strconv.Atoi(string(v)); err == nil && end >= row.Pos {
			return max(n, end-row.Pos+1)
		}
	}
	return n
}

// setGenotypes reads GT of all samples.
func (a *Annotator) setGenotypes(s *site) error {
	m, samples := &a.caller.memory, a.caller.samples
	format, columns, _ := bytes.Cut(s.row.AfterInfo()[1:], []byte{'\t'})
	at := keyIndex(format, []byte("GT"))
	if at < 0 {
		return nil
	}
	s.phased = m.flags.take(samples)
	all, ends := a.genotype[:0], a.ends[:0]
	for i := range samples {
		var values []byte
		values, columns, _ = bytes.Cut(columns, []byte{'\t'})
		begun := len(all)
		if gt, ok := value(values, at); ok {
			var err error
			if all, err = vcf.AppendGenotype(all, gt, len(s.text)-1); err != nil {
				return fmt.Errorf("sample %d: %w", i+1, err)
			}
		}
		ends = append(ends, len(all))
		s.ploidy = max(s.ploidy, len(all)-begun)
	}
	a.genotype, a.ends = all, ends
	s.alts = m.numbers.take(s.ploidy * samples)
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

// value is the value of place at of those that colons separate, and whether it is there.
func value(values []byte, at int) ([]byte, bool) {
	for ; ; at-- {
		v, rest, more := bytes.Cut(values, []byte{':'})
		if at == 0 {
			return v, true
		}
		if !more {
			return nil, false
		}
		values = rest
	}
}
