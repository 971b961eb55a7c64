package annotate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Field is an INFO field of consequences, in the form of the program that introduced it.
type Field string

// The fields.
const (
	CSQ  Field = "CSQ"  // Ensembl VEP
	ANN  Field = "ANN"  // SnpEff
	BCSQ Field = "BCSQ" // bcftools csq
)

// Stats counts what a stream had.
type Stats struct {
	Records     int         // data lines
	Alleles     int         // alternate alleles annotated
	Unsupported Unsupported // alternate alleles without consequences
}

// Add adds the counts of s.
func (t *Stats) Add(s Stats) {
	t.Records += s.Records
	t.Alleles += s.Alleles
	for reason, n := range s.Unsupported {
		t.Unsupported[reason] += n
	}
}

// Options choose the content of an allele's annotation. The zero value suits most users.
type Options struct {
	// Fields are the INFO fields to write, in this order. BCSQ takes more than a record at a time and is not this
	// package's: it is left as it comes.
	Fields []Field
	// CSQ are the names of the sub-fields of INFO/CSQ; see CSQSubfields. None: the usual ones.
	CSQ []string
}

// Rows annotates the data lines of VCF files, one at a time. It holds memory that it uses again: it is for one
// goroutine.
type Rows struct {
	Stats Stats

	a      *Annotator
	fields []Field  // those of the options that it writes
	names  []string // of fields
	layout *csqLayout
	csq    *csqWriter
	known  *KnownInfo // nil without sources
	scores *ScoreInfo // nil without networks
	does   *functionWriter

	site      Site
	evaluated []evaluatedAllele
	w         workspace
	seen      byte // of what Ahead read
	ahead     aheadScores
}

// Rows returns what annotates data lines. It fails if the options name a sub-field that is not known.
func (a *Annotator) Rows(opts Options) (*Rows, error) {
	r := &Rows{a: a}
	for _, f := range opts.Fields {
		if f != BCSQ {
			r.fields, r.names = append(r.fields, f), append(r.names, string(f))
		}
	}
	var err error
	if r.layout, err = newCSQLayout(opts.CSQ); err != nil {
		return nil, err
	}
	r.csq = a.csqWriter(r.layout)
	if a.sources != nil {
		r.known = NewKnownInfo(a.sources.Describe())
		r.names = append(r.names, r.known.keys...)
	}
	if a.scorer != nil {
		r.scores = NewScoreInfo(a.scorer.Describe())
		r.names = append(r.names, r.scores.keys()...)
	}
	if a.functions != nil {
		r.does = &functionWriter{begun: map[functionPlace]bool{}}
		r.names = append(r.names, functionsKey)
	}
	return r, nil
}

// Declare adds the INFO fields that r writes to a header.
func (r *Rows) Declare(h *vcf.Header) {
	if origin := r.a.model.Origin; origin != "" {
		h.AddMeta(GeneModelsMeta(origin))
	}
	for _, f := range r.fields {
		h.AddInfo(string(f), ".", "String", map[Field]string{CSQ: r.layout.description(), ANN: ANNDescription}[f])
	}
	if r.known != nil {
		r.known.Declare(h)
	}
	if r.scores != nil {
		r.scores.Declare(h)
	}
	if r.does != nil {
		declareFunctions(h)
	}
}

// Append appends a data line with what its alternate alleles do in INFO, and with its end. Everything else stays as
// it is.
func (r *Rows) Append(dst []byte, row *vcf.Row) ([]byte, error) {
	if len(r.names) == 0 { // transformers have said what there is to say
		r.Stats.Records++
		return append(append(dst, row.Text...), '\n'), nil
	}
	if err := r.evaluate(row); err != nil {
		return dst, err
	}
	dst, filled := row.AppendUpToInfo(dst, r.names...) // values of an earlier run perhaps have other sub-fields
	for _, f := range r.fields {
		before := len(dst)
		if filled {
			dst = append(dst, ';')
		}
		dst = append(append(dst, f...), '=')
		from := len(dst)
		for i := range r.evaluated {
			j := &r.evaluated[i]
			if len(j.effects) == 0 {
				continue
			}
			if len(dst) > from {
				dst = append(dst, ',')
			}
			if f == CSQ {
				dst = r.csq.append(dst, j, i+1)
			} else {
				dst = r.a.appendANN(dst, j)
			}
		}
		if len(dst) == from {
			dst = dst[:before]
			continue
		}
		filled = true
	}
	if r.known != nil {
		dst, filled = r.known.append(dst, filled, len(r.evaluated), func(i int) []Known { return r.evaluated[i].known })
	}
	if r.scores != nil {
		dst, filled = r.appendScores(dst, filled)
	}
	if r.does != nil {
		dst, filled = r.appendFunctions(dst, filled)
	}
	if !filled {
		dst = append(dst, '.')
	}
	return append(append(dst, row.AfterInfo()...), '\n'), nil
}

// Ahead says which data lines will be annotated next. It reads the reference where they are: bases that have to come from
// memory come for all of them at once, while Append, which compares each REF with them, would wait for each by itself. So do
// networks' scores. An error is one of networks.
func (r *Rows) Ahead(rows []vcf.Row) error {
	r.readAhead(rows)
	if r.scores == nil {
		return nil
	}
	return r.scoreAhead(rows)
}

func (r *Rows) readAhead(rows []vcf.Row) {
	if r.w.at == nil {
		return // the first line shows which contig it is
	}
	contig := r.w.at.contig
	for i := range rows {
		if at := rows[i].Pos - 1; at >= 0 && at < contig.Len() {
			r.seen += contig.At(at)
		}
	}
}

// Line is an alternate allele and its annotation.
type Line struct {
	Variant Variant `json:"variant"`
	Annotation
}

// Variant names a variant allele as the input has it, and by its identifier.
type Variant struct {
	Contig string `json:"contig"`
	Pos    int    `json:"pos"` // 1-based
	ID     string `json:"id,omitempty"`
	Ref    string `json:"ref"`
	Alt    string `json:"alt"`
	VRSID  string `json:"vrs_id,omitempty"` // GA4GH VRS 2.x computed identifier, of alleles that are sequences
}

// Each calls f for each alternate allele of a data line that can be annotated.
func (r *Rows) Each(row *vcf.Row, f func(*Line) error) error {
	if err := r.evaluate(row); err != nil {
		return err
	}
	for i := range r.evaluated {
		j := &r.evaluated[i]
		if j.effects == nil {
			continue
		}
		line := Line{
			Variant:    Variant{Contig: r.site.Contig, Pos: row.Pos, Ref: r.site.Ref, Alt: j.alt},
			Annotation: r.a.describe(j),
		}
		if r.scores != nil {
			line.Scores = r.ahead.row[i]
		}
		if id := string(row.ID); id != "." {
			line.Variant.ID = id
		}
		if v := j.v; v != nil && v.kind == svNone {
			var err error
			if line.Variant.VRSID, err = v.contig.AlleleID(v.start, v.ref, v.alt); err != nil {
				return err
			}
		}
		if err := f(&line); err != nil {
			return err
		}
	}
	return nil
}

// evaluate sets r.evaluated to the evaluated alternate alleles of row, and counts.
func (r *Rows) evaluate(row *vcf.Row) error {
	r.Stats.Records++
	r.w.reset()
	r.evaluated = r.evaluated[:0]
	if err := r.site.set(row); err != nil {
		return err
	}
	var err error
	if r.evaluated, err = r.a.evaluate(&r.w, r.evaluated, &r.site); err != nil {
		return err
	}
	if r.scores != nil {
		if err := r.scoresOf(row); err != nil {
			return err
		}
	}
	for i := range r.evaluated {
		if err := r.evaluated[i].unsupported; err != nil {
			r.Stats.Unsupported[reasonOf(err)]++
		} else {
			r.Stats.Alleles++
		}
	}
	return nil
}

// set makes s what row says. It keeps the memory of s.
func (s *Site) set(row *vcf.Row) error {
	if s.Contig != string(row.Chrom) {
		s.Contig = string(row.Chrom)
	}
	s.Pos, s.Ref = row.Pos, string(row.Ref)
	s.Alts, s.End, s.Lengths, s.Imprecise = s.Alts[:0], 0, s.Lengths[:0], false
	if len(row.Alt) == 1 && row.Alt[0] == '.' {
		return nil
	}
	symbolic := false
	for alt := range bytes.SplitSeq(row.Alt, []byte{','}) {
		s.Alts = append(s.Alts, string(alt))
		symbolic = symbolic || !isSequence(s.Alts[len(s.Alts)-1])
	}
	if !symbolic {
		return nil
	}
	if end, ok := row.InfoValue("END"); ok {
		n, err := strconv.Atoi(string(end))
		if err != nil || n < 0 {
			return fmt.Errorf("INFO/END %q is not a position", clip(string(end)))
		}
		s.End = n
	}
	if lengths, ok := row.InfoValue("SVLEN"); ok {
		for length := range strings.SplitSeq(string(lengths), ",") {
			n, err := strconv.Atoi(length)
			if err != nil && length != "." {
				return fmt.Errorf("INFO/SVLEN %q is not a list of lengths", clip(string(lengths)))
			}
			s.Lengths = append(s.Lengths, n)
		}
	}
	_, s.Imprecise = row.InfoValue("IMPRECISE")
	return nil
}

// GeneModelsMeta is the line of a VCF's header that says where gene models come from.
func GeneModelsMeta(origin string) string {
	return "##geneModels=" + strings.Join(strings.Fields(origin), " ")
}
