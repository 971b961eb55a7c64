package annotate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

// Field is an INFO field that tells consequences, in the form of the program that introduced it.
type Field string

// The fields.
const (
	CSQ  Field = "CSQ"  // Ensembl VEP
	BCSQ Field = "BCSQ" // bcftools csq
)

// Stats counts what a stream had.
type Stats struct {
	Records     int // data lines
	Alleles     int // alternate alleles annotated
	Unsupported int // alternate alleles passed through without annotation: symbolic ones, breakends, "*"
}

// Add adds the counts of s.
func (t *Stats) Add(s Stats) {
	t.Records += s.Records
	t.Alleles += s.Alleles
	t.Unsupported += s.Unsupported
}

// Options choose what is said about an allele. The zero value is what most want.
type Options struct {
	// Fields are the INFO fields to write, in this order. Those that take more than a record at a time, BCSQ, are
	// not this package's: they are left as they come.
	Fields []Field
	// Pick keeps only the first, most relevant consequence of each allele.
	Pick bool
}

// Rows annotates the data lines of VCF files, one at a time. It holds memory that it uses again: it is for one
// goroutine.
type Rows struct {
	Stats Stats

	a    *Annotator
	opts Options
	own  []Field  // those of opts.Fields that it writes
	keys []string // their names
	alts []string
	w    workspace
}

// Rows returns what annotates data lines.
func (a *Annotator) Rows(opts Options) *Rows {
	r := &Rows{a: a, opts: opts}
	for _, f := range opts.Fields {
		if f == CSQ {
			r.own, r.keys = append(r.own, f), append(r.keys, string(f))
		}
	}
	return r
}

// Declare adds the INFO fields that r writes to a header.
func (r *Rows) Declare(h *vcf.Header) {
	for _, f := range r.own {
		h.AddInfo(string(f), ".", "String", CSQDescription)
	}
}

// Append appends a data line with what its alternate alleles do in INFO, and with its end. Everything else stays as
// it is.
func (r *Rows) Append(dst []byte, row *vcf.Row) ([]byte, error) {
	begun := len(dst)
	dst, filled := row.AppendUpToInfo(dst, r.keys...) // values of an earlier run perhaps have other sub-fields
	before := len(dst)
	if len(r.own) > 0 {
		if filled {
			dst = append(dst, ';')
		}
		dst = append(dst, "CSQ="...)
		from := len(dst)
		err := r.each(row, func(_ string, _ *variant, ann *Annotation) error {
			if len(dst) > from {
				dst = append(dst, ',')
			}
			dst = ann.AppendCSQ(dst)
			return nil
		})
		if err != nil {
			return dst[:begun], err
		}
		if len(dst) == from {
			dst = dst[:before]
		} else {
			filled = true
		}
	} else {
		r.Stats.Records++
	}
	if !filled {
		dst = append(dst, '.')
	}
	return append(append(dst, row.AfterInfo()...), '\n'), nil
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
	VRSID  string `json:"vrs_id"` // GA4GH VRS 2.x computed identifier
}

// Each calls f for each alternate allele of a data line that can be annotated.
func (r *Rows) Each(row *vcf.Row, f func(*Line) error) error {
	return r.each(row, func(alt string, v *variant, ann *Annotation) error {
		id, err := vrs.AlleleID(v.contig.Digest, v.contig.Seq, v.start, v.ref, v.alt)
		if err != nil {
			return err
		}
		line := Line{Variant{Contig: v.contig.Name, Pos: row.Pos, Ref: string(row.Ref), Alt: alt, VRSID: id}, *ann}
		if id := string(row.ID); id != "." {
			line.Variant.ID = id
		}
		return f(&line)
	})
}

// each annotates the alternate alleles of row, calls f for each, and counts.
func (r *Rows) each(row *vcf.Row, f func(alt string, v *variant, ann *Annotation) error) error {
	r.Stats.Records++
	if string(row.Alt) == "." {
		return nil
	}
	chrom, ref := string(row.Chrom), string(row.Ref)
	r.alts = slices.AppendSeq(r.alts[:0], strings.SplitSeq(string(row.Alt), ","))
	strip := sharesFirstBase(ref, r.alts)
	r.w.reset()
	for _, alt := range r.alts {
		v, err := r.a.variant(&r.w, chrom, row.Pos, ref, alt)
		if errors.Is(err, ErrUnsupportedAllele) {
			r.Stats.Unsupported++
			continue
		}
		if err != nil {
			return fmt.Errorf("annotating %s:%d %s>%s: %w", chrom, row.Pos, clip(ref), clip(alt), err)
		}
		name := strings.ToUpper(alt)
		if strip {
			name = dash(name[1:])
		}
		ann := r.a.annotate(&r.w, v, name)
		if r.opts.Pick {
			ann.Consequences = ann.Consequences[:1]
		}
		if err := f(alt, v, &ann); err != nil {
			return err
		}
		r.Stats.Alleles++
	}
	return nil
}

// sharesFirstBase says whether VEP names the record's alleles without their first base: when one of them is an indel
// and all begin alike.
func sharesFirstBase(ref string, alts []string) bool {
	indel := false
	for _, alt := range alts {
		if alt == "*" {
			continue
		}
		if alt[0] != ref[0] {
			return false
		}
		indel = indel || len(alt) != len(ref)
	}
	return indel
}
