package eval

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What the tables for people are cut to; JSON has everything.
const (
	textContexts = 8
	textContigs  = 10
	textBases    = 200 // of a quality, for a row
)

// WriteText writes the report as tables for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.writeReads(&b)
	r.writeErrors(&b)
	r.writeHomopolymers(&b)
	r.writeContexts(&b)
	r.writeQualities(&b)
	r.writeContigs(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing tables: %w", err)
	}
	return nil
}

// table writes rows of cells that are aligned to the right, but the first to the left.
func table(b *strings.Builder, rows func(row func(cells ...any))) {
	var lines [][]string
	var widths []int
	rows(func(cells ...any) {
		line := make([]string, len(cells))
		for i, c := range cells {
			line[i] = fmt.Sprint(c)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		lines = append(lines, line)
	})
	for _, line := range lines {
		text := fmt.Sprintf("%-*s", widths[0], line[0])
		for i, cell := range line[1:] {
			text += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	b.WriteByte('\n')
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(100**v, 'f', 2, 64) + " %"
}

func decimal(v *float64, digits int) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

func signed(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%+.3f", *v)
}

func (r *Report) writeReads(b *strings.Builder) {
	n := &r.Reads
	fmt.Fprintf(b, "Reads     %d, %d bases, N50 %d\n", n.Reads, n.Bases, n.N50)
	fmt.Fprintf(b, "Aligned   %d (%s), %s of their bases\n", n.Aligned, percent(n.AlignedRate), percent(n.AlignedPart))
	fmt.Fprintf(b, "Clipped   %d bases (%s)\n", n.ClippedBases, percent(n.ClippedRate))
	fmt.Fprintf(b, "Identity  mean %s, median %s\n", percent(r.Identity.Mean), percent(r.Identity.Median))
	if l := r.Labels; l != nil {
		fmt.Fprintf(b, "Labels    %d reads: %d called, %d aligned (%s), %d where the label says (%s)\n", l.Reads, l.Called, l.Aligned, percent(l.Rate), l.Placed, percent(l.Right))
	}
	b.WriteByte('\n')
}

func (r *Report) writeErrors(b *strings.Builder) {
	e := &r.Errors
	table(b, func(row func(...any)) {
		row("Errors", "columns", "of all columns", "per kilobase")
		row("  substitutions", e.Substitutions, percent(e.PerColumn.Substitutions), decimal(e.PerKilobase.Substitutions, 2))
		row("  insertions", e.Insertions, percent(e.PerColumn.Insertions), decimal(e.PerKilobase.Insertions, 2))
		row("    in homopolymers of 3 and more", e.HomopolymerInsertions, percent(ratio(e.HomopolymerInsertions, e.Columns)), "")
		row("  deletions", e.Deletions, percent(e.PerColumn.Deletions), decimal(e.PerKilobase.Deletions, 2))
		row("    in homopolymers of 3 and more", e.HomopolymerDeletions, percent(ratio(e.HomopolymerDeletions, e.Columns)), "")
		row("  all", e.Columns-e.Matches, percent(e.PerColumn.All), decimal(e.PerKilobase.All, 2))
	})
	table(b, func(row func(...any)) {
		row("Called as", "A", "C", "G", "T")
		for x, counts := range r.Confusion.Counts {
			sum := counts[0] + counts[1] + counts[2] + counts[3]
			cells := []any{"  " + "ACGT"[x:x+1]}
			for _, n := range counts {
				cells = append(cells, percent(ratio(n, sum)))
			}
			row(cells...)
		}
	})
	table(b, func(row func(...any)) {
		row("Gaps of length", "1", "2", "3", "4-9", "10 and more")
		for _, kind := range []struct {
			name string
			list []Lengths
		}{{"  insertions", r.Insertions}, {"  deletions", r.Deletions}} {
			var by [5]int64
			for _, l := range kind.list {
				switch {
				case l.Length <= 3:
					by[l.Length-1] += l.Count
				case l.Length <= 9:
					by[3] += l.Count
				default:
					by[4] += l.Count
				}
			}
			row(kind.name, by[0], by[1], by[2], by[3], by[4])
		}
	})
}

func (r *Report) writeHomopolymers(b *strings.Builder) {
	exact := make(map[string]string)
	for _, h := range r.Homopolymers {
		exact[h.Base+strconv.Itoa(h.Length)] = percent(h.Exact)
	}
	table(b, func(row func(...any)) {
		row("Homopolymers", "runs", "called right", "mean error", "A", "C", "G", "T")
		for _, h := range r.Homopolymers {
			if h.Base != "all" || h.Runs == 0 {
				continue
			}
			name, n := "  "+strconv.Itoa(h.Length), strconv.Itoa(h.Length)
			if h.Length == maxRun {
				name += " and more"
			}
			row(name, h.Runs, percent(h.Exact), signed(h.MeanError), exact["A"+n], exact["C"+n], exact["G"+n], exact["T"+n])
		}
	})
}

func (r *Report) writeContexts(b *strings.Builder) {
	table(b, func(row func(...any)) {
		row("Worst contexts", "sites", "errors", "substitutions", "insertions", "deletions")
		for _, c := range r.Contexts[:min(textContexts, len(r.Contexts))] {
			if c.Sites > 0 {
				row("  "+c.Bases, c.Sites, percent(c.Rate), percent(ratio(c.Substitutions, c.Sites)), percent(ratio(c.Insertions, c.Sites)), percent(ratio(c.Deletions, c.Sites)))
			}
		}
	})
	if len(r.Motifs) == 0 {
		return
	}
	table(b, func(row func(...any)) {
		row("Motifs", "found", "called right", "errors", "elsewhere", "substitutions", "insertions", "deletions")
		for _, m := range r.Motifs {
			row("  "+m.Motif, m.Occurrences, percent(m.Exact), percent(m.Rate), percent(m.Elsewhere), percent(ratio(m.Substitutions, m.Sites)), percent(ratio(m.Insertions, m.Sites)), percent(ratio(m.Deletions, m.Sites)))
		}
	})
}

func (r *Report) writeQualities(b *strings.Builder) {
	q := r.Qualities
	if q == nil {
		return
	}
	if slices.ContainsFunc(q.Bins, QualityBin.shown) {
		q.writeBins(b)
	}
	if q.Deviation != nil {
		worst := q.Bins[slices.IndexFunc(q.Bins, func(bin QualityBin) bool { return bin.Quality == q.DeviationAt })]
		fmt.Fprintf(b, "Off by %s at most from Q%d to Q%d (at Q%d, where %d wrong bases leave %s possible), by %s in the mean over all bases.\n\n",
			decimal(q.Deviation, 2), CalibrationLow, CalibrationHigh, q.DeviationAt, worst.wrong(), worst.between(), decimal(q.MeanDeviation, 2))
	}
	if len(q.Reads) > 0 {
		table(b, func(row func(...any)) {
			row("Mean quality of reads", "reads", "identity", "as Phred")
			for _, bin := range q.Reads {
				row(fmt.Sprintf("  Q%d to Q%d", bin.Quality, bin.Quality+1), bin.Reads, percent(&bin.Identity), decimal(&bin.Observed, 2))
			}
		})
	}
}

// shown reports whether a bin has bases enough for a row or a point.
func (b QualityBin) shown() bool { return b.Bases >= textBases }

func (b QualityBin) between() string { return fmt.Sprintf("%.1f to %.1f", b.Between[0], b.Between[1]) }

func (q *Qualities) writeBins(b *strings.Builder) {
	table(b, func(row func(...any)) {
		row("Base qualities", "bases", "wrong", "observed", "95 %", "difference")
		for _, bin := range q.Bins {
			if bin.shown() {
				row("  Q"+strconv.Itoa(bin.Quality), bin.Bases, bin.wrong(), decimal(&bin.Observed, 2), bin.between(), fmt.Sprintf("%+.2f", bin.Observed-float64(bin.Quality)))
			}
		}
	})
}

func (r *Report) writeContigs(b *strings.Builder) {
	if len(r.Contigs) < 2 {
		return
	}
	table(b, func(row func(...any)) {
		row("Contigs", "reads", "aligned bases", "identity")
		for _, c := range r.Contigs[:min(textContigs, len(r.Contigs))] {
			row("  "+c.Name, c.Reads, c.Bases, percent(&c.Mean))
		}
	})
	if more := len(r.Contigs) - textContigs; more > 0 {
		fmt.Fprintf(b, "and %d more.\n\n", more)
	}
}

// figure is what two reports are compared by.
type figure struct {
	name  string
	of    func(*Report) *float64
	share bool // shown in per cent
}

// figures are those that show whether a basecaller has become better.
func figures() []figure {
	list := []figure{
		{"aligned reads", func(r *Report) *float64 { return r.Reads.AlignedRate }, true},
		{"clipped bases", func(r *Report) *float64 { return r.Reads.ClippedRate }, true},
		{"identity, mean", func(r *Report) *float64 { return r.Identity.Mean }, true},
		{"identity, median", func(r *Report) *float64 { return r.Identity.Median }, true},
		{"substitutions", func(r *Report) *float64 { return r.Errors.PerColumn.Substitutions }, true},
		{"insertions", func(r *Report) *float64 { return r.Errors.PerColumn.Insertions }, true},
		{"deletions", func(r *Report) *float64 { return r.Errors.PerColumn.Deletions }, true},
	}
	for _, length := range []int{3, 5, 7} {
		list = append(list, figure{"homopolymers of " + strconv.Itoa(length) + " right", func(r *Report) *float64 {
			for _, h := range r.Homopolymers {
				if h.Base == "all" && h.Length == length {
					return h.Exact
				}
			}
			return nil
		}, true})
	}
	quality := func(of func(*Qualities) *float64) func(*Report) *float64 {
		return func(r *Report) *float64 {
			if r.Qualities == nil {
				return nil
			}
			return of(r.Qualities)
		}
	}
	label := func(of func(*Labelled) *float64) func(*Report) *float64 {
		return func(r *Report) *float64 {
			if r.Labels == nil {
				return nil
			}
			return of(r.Labels)
		}
	}
	return append(list,
		figure{"qualities off by at most", quality(func(q *Qualities) *float64 { return q.Deviation }), false},
		figure{"qualities off, mean", quality(func(q *Qualities) *float64 { return q.MeanDeviation }), false},
		figure{"labelled reads aligned", label(func(l *Labelled) *float64 { return l.Rate }), true},
		figure{"labelled reads placed right", label(func(l *Labelled) *float64 { return l.Right }), true},
	)
}

// WriteComparison writes what has changed since an earlier report.
func (r *Report) WriteComparison(w io.Writer, before *Report) error {
	var b strings.Builder
	table(&b, func(row func(...any)) {
		row("", "before", "now", "change")
		for _, f := range figures() {
			x, y := f.of(before), f.of(r)
			if x == nil && y == nil {
				continue
			}
			change := "-"
			text := func(v *float64) string { return decimal(v, 2) }
			if f.share {
				text = percent
			}
			if x != nil && y != nil {
				change = fmt.Sprintf("%+.2f", *y-*x)
				if f.share {
					change = fmt.Sprintf("%+.2f", 100*(*y-*x))
				}
			}
			row(f.name, text(x), text(y), change)
		}
	})
	if _, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n")); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}
