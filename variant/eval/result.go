package eval

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Result is the outcome of a comparison.
type Result struct {
	// Genotypes says whether both sides have genotypes; without, alleles alone are compared.
	Genotypes bool  `json:"genotypes"`
	Rows      []Row `json:"rows"`
	// Events are the figures of whole events by kind, and last of all together ("ALL"): with genotypes, if they were compared.
	Events []EventRow `json:"events"`
	// Neighbours are the truth's events by the distance of the nearest other one; nil without any.
	Neighbours []NeighbourRow `json:"neighbours,omitempty"`
	Zygosity   Zygosity       `json:"genotype_errors"`
	Phasing    Phasing        `json:"phasing"`
	Skipped    struct {
		Truth Skipped `json:"truth"`
		Query Skipped `json:"query"`
	} `json:"skipped"`
	// Bases are those of Options.Regions; 0: everything is assessed.
	Bases    int `json:"assessed_bases,omitempty"`
	Clusters int `json:"clusters"`
	// GivenUp are the clusters whose search grew beyond Options.MaxPaths.
	GivenUp int `json:"clusters_given_up"`
	// MixedPloidy are the clusters in which haploid meet diploid genotypes, which cannot match.
	MixedPloidy int     `json:"clusters_of_mixed_ploidy"`
	ROC         []Curve `json:"-"`
}

// Row is the figures of a stratum and a kind of variant.
type Row struct {
	Stratum string `json:"stratum"`
	Kind    string `json:"kind"` // SNP, INDEL or ALL
	// Genotypes are the figures of variants with their genotypes; nil when they were not compared.
	Genotypes *Figures `json:"genotypes,omitempty"`
	// Alleles are the figures of variants, whatever their genotypes.
	Alleles          Figures `json:"alleles"`
	WrongGenotype    int     `json:"fp_gt"` // of the query's false positives, those whose allele is right
	Unresolved       int     `json:"unresolved"`
	NotAssessed      int     `json:"query_unk"`
	TruthNotAssessed int     `json:"truth_unk"`
}

// Figures are counts and what follows from them; a share of nothing is nil.
type Figures struct {
	counts
	Recall            *float64    `json:"recall"`
	Precision         *float64    `json:"precision"`
	F1                *float64    `json:"f1"`
	RecallInterval    *[2]float64 `json:"recall_95,omitempty"`
	PrecisionInterval *[2]float64 `json:"precision_95,omitempty"`
	F1Interval        *[2]float64 `json:"f1_95,omitempty"`
}

// EventRow is the figures of events of a kind: alleles of records, each as a whole. One is right if all of it is, and so is each
// event of the other side that spells a part of it, however either is split over records.
type EventRow struct {
	Kind string `json:"kind"` // SNP, insertion, deletion, MNP, delins or ALL
	eventCounts
	Recall    *float64 `json:"recall"`
	Precision *float64 `json:"precision"`
	F1        *float64 `json:"f1"`
}

// NeighbourRow is the figures of the truth's events whose nearest other one is at a distance: "within 1", where no base is
// between them or they could be written at one place, "2-5", "6-10" or "isolated".
type NeighbourRow struct {
	Distance  string   `json:"distance"`
	TruthTP   int      `json:"truth_tp"`
	TruthFN   int      `json:"truth_fn"`
	TruthPart int      `json:"truth_part"`
	OneRecord int      `json:"one_record"`
	Recall    *float64 `json:"recall"`
}

// Primary are the figures that count: with genotypes, if they were compared.
func (r *Row) Primary() *Figures {
	if r.Genotypes != nil {
		return r.Genotypes
	}
	return &r.Alleles
}

// Row is the row of a stratum and kind, or nil.
func (r *Result) Row(stratum, kind string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Stratum == stratum && r.Rows[i].Kind == kind {
			return &r.Rows[i]
		}
	}
	return nil
}

// WriteText writes the result as tables for people.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := "\ttruth\tfound\tmissed\tcalled\tright\twrong\twrong GT\tnot assessed\trecall\tprecision\tF1\t95 % of F1\t\n"
	if r.Genotypes {
		fmt.Fprint(t, "Variants with their genotypes", header)
		for i := range r.Rows {
			if r.Rows[i].Stratum == everywhere {
				writeRow(t, r.Rows[i].Kind, r.Rows[i].Genotypes, &r.Rows[i])
			}
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, "Variants, whatever their genotypes", header)
	for i := range r.Rows {
		if r.Rows[i].Stratum == everywhere {
			writeRow(t, r.Rows[i].Kind, &r.Rows[i].Alleles, &r.Rows[i])
		}
	}
	fmt.Fprint(t, "\nParts of the reference", header)
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Stratum != everywhere {
			writeRow(t, row.Kind+" "+row.Stratum, row.Primary(), row)
		}
	}
	r.writeEvents(t)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing tables: %w", err)
	}
	var b strings.Builder
	b.WriteByte('\n')
	if z := r.Zygosity; z != (Zygosity{}) {
		fmt.Fprintf(&b, "Genotype errors: %d heterozygous as homozygous, %d homozygous as heterozygous, %d others.\n", z.HetAsHom, z.HomAsHet, z.Other)
	}
	if p := r.Phasing; p.Pairs > 0 {
		fmt.Fprintf(&b, "Phasing: %d pairs of neighbours in %d sets; %d switch errors, %d flips (%s of the pairs).\n", p.Pairs, p.Sets, p.Switches, p.Flips, share(p.ErrorRate))
	}
	for _, c := range r.ROC {
		if best := c.Best(); best != nil && c.Kind != "ALL" && best != &c.Points[len(c.Points)-1] {
			fmt.Fprintf(&b, "Best threshold for %s: score %s, F1 %.4f (precision %.4f, recall %.4f).\n", c.Kind, strconv.FormatFloat(best.Score, 'g', 6, 64), best.F1, best.Precision, best.Recall)
		}
	}
	for _, s := range []struct {
		name string
		n    Skipped
	}{{"truth", r.Skipped.Truth}, {"query", r.Skipped.Query}} {
		if text := s.n.String(); text != "" {
			fmt.Fprintf(&b, "Not compared of the %s: %s.\n", s.name, text)
		}
	}
	if r.Bases > 0 {
		fmt.Fprintf(&b, "Assessed: %d bases.\n", r.Bases)
	}
	if !r.Genotypes {
		b.WriteString("Genotypes were not compared: --squash, or a file without samples.\n")
	}
	if r.MixedPloidy > 0 {
		fmt.Fprintf(&b, "In %d places haploid genotypes (1) meet diploid ones (1/1), which differ: --ploidy makes them equal.\n", r.MixedPloidy)
	}
	if r.GivenUp > 0 {
		fmt.Fprintf(&b, "In %d places the search was given up; all variants there count as errors (unresolved).\n", r.GivenUp)
	}
	if _, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n")+"\n"); err != nil {
		return fmt.Errorf("writing tables: %w", err)
	}
	return nil
}

func writeRow(t io.Writer, name string, f *Figures, row *Row) {
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", name,
		f.TruthTP+f.TruthFN, f.TruthTP, f.TruthFN, f.QueryTP+f.QueryFP, f.QueryTP, f.QueryFP, row.WrongGenotype, row.NotAssessed,
		share(f.Recall), share(f.Precision), share(f.F1), between(f.F1Interval))
}

// writeEvents writes the tables of whole events.
func (r *Result) writeEvents(t io.Writer) {
	fmt.Fprint(t, "\nEvents as a whole\ttruth\tfound\tin one record\tmissed\thalf found\tcalled\tright\twrong\thalf right\trecall\tprecision\tF1\t\n")
	for i := range r.Events {
		if e := &r.Events[i]; e.counts != (counts{}) {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", e.Kind,
				e.TruthTP+e.TruthFN, e.TruthTP, e.OneRecord, e.TruthFN, e.TruthPart, e.QueryTP+e.QueryFP, e.QueryTP, e.QueryFP, e.QueryPart,
				share(e.Recall), share(e.Precision), share(e.F1))
		}
	}
	if len(r.Neighbours) == 0 {
		return
	}
	fmt.Fprint(t, "\nNearest other variant of the truth\ttruth\tfound\tin one record\tmissed\thalf found\trecall\t\n")
	for _, n := range r.Neighbours {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", n.Distance, n.TruthTP+n.TruthFN, n.TruthTP, n.OneRecord, n.TruthFN, n.TruthPart, share(n.Recall))
	}
}

func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 4, 64)
}

func between(v *[2]float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f to %.4f", v[0], v[1])
}

func (s Skipped) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{s.Filtered, "records that failed a filter"}, {s.Reference, "without a variant"}, {s.NoCall, "without a genotype"},
		{s.Symbolic, "with symbolic alleles"}, {s.Long, "with long alleles"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}
