package annotate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

// Stats counts what a stream had.
type Stats struct {
	Records     int // data lines
	Alleles     int // alternate alleles annotated
	Unsupported int // alternate alleles passed through without annotation: symbolic ones, breakends, "*"
}

// Options are choices for VCF and JSONLines. The zero value is what most want.
type Options struct {
	// Pick keeps only the first, most relevant consequence of each allele.
	Pick bool
}

// VCF copies a VCF stream (text, gzip or bgzip) to out as text, with the consequences of each alternate allele in
// INFO/CSQ. Everything else stays as it is, and so does the order. It works one record at a time in bounded memory.
// An error about a record carries its line number.
func VCF(ctx context.Context, in io.Reader, out io.Writer, a *Annotator, opts Options) (Stats, error) {
	var s Stats
	r, err := vcf.NewReader(in)
	if err != nil {
		return s, fmt.Errorf("reading VCF: %w", err)
	}
	header := r.Header().Clone()
	header.AddInfo("CSQ", ".", "String", CSQDescription)
	w, err := vcf.NewWriter(out, header)
	if err != nil {
		return s, err
	}
	var csq []byte
	err = eachRecord(ctx, r, func(rec *vcf.Record) error {
		csq = csq[:0]
		err := s.record(a, rec, opts, func(_ string, _ *variant, ann *Annotation) error {
			if len(csq) > 0 {
				csq = append(csq, ',')
			}
			csq = ann.AppendCSQ(csq)
			return nil
		})
		if err != nil {
			return err
		}
		rec.Info.Delete("CSQ") // of an earlier run, perhaps with other fields
		if len(csq) > 0 {
			rec.Info.Set("CSQ", string(csq))
		}
		return w.Write(rec)
	})
	return s, errors.Join(err, w.Flush())
}

// Line is one line that JSONLines writes: an alternate allele and its annotation.
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

// JSONLines writes one Line for each alternate allele of a VCF stream, in its order.
func JSONLines(ctx context.Context, in io.Reader, out io.Writer, a *Annotator, opts Options) (Stats, error) {
	var s Stats
	r, err := vcf.NewReader(in)
	if err != nil {
		return s, fmt.Errorf("reading VCF: %w", err)
	}
	w := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // HGVS is full of ">"
	err = eachRecord(ctx, r, func(rec *vcf.Record) error {
		return s.record(a, rec, opts, func(alt string, v *variant, ann *Annotation) error {
			id, err := vrs.AlleleID(v.contig.Digest, v.contig.Seq, v.start, v.ref, v.alt)
			if err != nil {
				return err
			}
			line := Line{Variant{Contig: rec.Chrom, Pos: rec.Pos, ID: rec.ID, Ref: rec.Ref, Alt: alt, VRSID: id}, *ann}
			if err := enc.Encode(line); err != nil {
				return fmt.Errorf("writing annotation: %w", err)
			}
			return nil
		})
	})
	if ferr := w.Flush(); ferr != nil && err == nil {
		err = fmt.Errorf("writing annotations: %w", ferr)
	}
	return s, err
}

// eachRecord calls f for each record until the stream ends, f fails or ctx is cancelled.
func eachRecord(ctx context.Context, r *vcf.Reader, f func(*vcf.Record) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("annotating VCF: %w", err)
		}
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading VCF: %w", err)
		}
		if err := f(rec); err != nil {
			return fmt.Errorf("line %d: %w", r.Line(), err)
		}
	}
}

// record annotates the alternate alleles of rec, calls f for each, and counts.
func (s *Stats) record(a *Annotator, rec *vcf.Record, opts Options, f func(alt string, v *variant, ann *Annotation) error) error {
	s.Records++
	strip := sharesFirstBase(rec)
	for _, alt := range rec.Alt {
		v, err := a.variant(rec.Chrom, rec.Pos, rec.Ref, alt)
		if errors.Is(err, ErrUnsupportedAllele) {
			s.Unsupported++
			continue
		}
		if err != nil {
			return fmt.Errorf("annotating %s:%d %s>%s: %w", rec.Chrom, rec.Pos, clip(rec.Ref), clip(alt), err)
		}
		name := alt
		if strip {
			name = dash(alt[1:])
		}
		ann := a.annotate(v, name)
		if opts.Pick {
			ann.Consequences = ann.Consequences[:1]
		}
		if err := f(alt, v, &ann); err != nil {
			return err
		}
		s.Alleles++
	}
	return nil
}

// sharesFirstBase says whether VEP names the record's alleles without their first base: when one of them is an indel
// and all begin alike.
func sharesFirstBase(rec *vcf.Record) bool {
	indel := false
	for _, alt := range rec.Alt {
		if alt == "*" {
			continue
		}
		if alt[0] != rec.Ref[0] {
			return false
		}
		indel = indel || len(alt) != len(rec.Ref)
	}
	return indel
}
