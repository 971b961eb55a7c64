package eval

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// RowColumns names the columns of AppendTSV; what a read has not is "-".
const RowColumns = "read_id\tlength\tmean_quality\tcontig\tstart\tend\tstrand\tmapping_quality\taligned_bases\tmatches\tsubstitutions\tinsertions\tdeletions\tidentity\n"

// AppendTSV appends a read as a line of a TSV.
func (r *Row) AppendTSV(b []byte) []byte {
	quality := "-"
	if !math.IsNaN(r.Quality) {
		quality = fmt.Sprintf("%.2f", r.Quality)
	}
	b = fmt.Appendf(b, "%s\t%d\t%s\t", r.Name, r.Length, quality)
	if !r.Aligned {
		return append(b, "-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\n"...)
	}
	strand := '+'
	if r.Reverse {
		strand = '-'
	}
	return fmt.Appendf(b, "%s\t%d\t%d\t%c\t%d\t%d\t%d\t%d\t%d\t%d\t%.6f\n", r.Contig, r.Start, r.End, strand, r.MappingQuality,
		r.AlignedBases, r.Matches, r.Substitutions, r.Inserted, r.Deleted, r.Identity())
}

// Table is a part of a report as TSV.
type Table struct {
	Name  string // of a file, without its ending
	Write func(io.Writer) error
}

// Tables are the parts of a report that are worth a spreadsheet. What does not exist is "-".
func (r *Report) Tables() []Table {
	return []Table{
		{"homopolymers", func(w io.Writer) error {
			out := bufio.NewWriter(w)
			fmt.Fprint(out, "base\tlength\truns\texact\tsubstituted\tmean_error\tmean_absolute_error")
			for n := range maxCalled + 1 {
				fmt.Fprintf(out, "\tcalled_%d", n)
			}
			fmt.Fprintln(out)
			for _, h := range r.Homopolymers {
				fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\t%s\t%s", h.Base, h.Length, h.Runs, decimal(h.Exact, 6), decimal(h.Substituted, 6), decimal(h.MeanError, 6), decimal(h.MeanSize, 6))
				for _, n := range h.Called {
					fmt.Fprintf(out, "\t%d", n)
				}
				fmt.Fprintln(out)
			}
			return out.Flush()
		}},
		{"contexts", func(w io.Writer) error {
			out := bufio.NewWriter(w)
			fmt.Fprintln(out, "bases\tsites\tsubstitutions\tinsertions\tdeletions\terror_rate")
			for _, c := range r.Contexts {
				fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\n", c.Bases, c.Sites, c.Substitutions, c.Insertions, c.Deletions, decimal(c.Rate, 6))
			}
			return out.Flush()
		}},
		{"qualities", func(w io.Writer) error {
			out := bufio.NewWriter(w)
			fmt.Fprintln(out, "quality\tbases\tsubstitutions\tinsertions\tobserved\tobserved_least\tobserved_most")
			if r.Qualities != nil {
				for _, q := range r.Qualities.Bins {
					fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%.4f\t%.4f\t%.4f\n", q.Quality, q.Bases, q.Substitutions, q.Insertions, q.Observed, q.Between[0], q.Between[1])
				}
			}
			return out.Flush()
		}},
		{"contigs", func(w io.Writer) error {
			out := bufio.NewWriter(w)
			fmt.Fprintln(out, "contig\treads\taligned_bases\tidentity_mean\tmatches_per_column")
			for _, c := range r.Contigs {
				fmt.Fprintf(out, "%s\t%d\t%d\t%.6f\t%.6f\n", c.Name, c.Reads, c.Bases, c.Mean, c.Accuracy)
			}
			return out.Flush()
		}},
	}
}
