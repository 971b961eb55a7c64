package eval

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Status is how far a call has come, as the stream's events say.
type Status string

// The statuses that matter here; others are just neither.
const (
	Stable    Status = "STABLE"
	Retracted Status = "RETRACTED"
)

// Revision is one revision of a call in a stream.
type Revision struct {
	Key      string // of the allele in the sample: its VRS id
	Number   uint64 // from 1; gaps are revisions that were compacted away
	Status   Status
	Contig   string
	Pos      int // 1-based
	Ref, Alt string
	Genotype []uint32 // by haplotype: 0 reference, 1 this allele, others another one, which has a key of its own
	PhaseSet int64    // 0: not phased
	Passed   bool     // no filter failed
	Qual     float64
	GQ       uint32
	Depth    int
	Time     time.Time // of the signal behind it; zero: unknown
}

// stands reports whether a consumer shows the call.
func (r *Revision) stands() bool { return r.Status != Retracted && r.Passed }

// sameGenotype reports whether two revisions say the same of the haplotypes: their order counts only in one phase
// set.
func (r *Revision) sameGenotype(s *Revision) bool {
	a, b := slices.Clone(r.Genotype), slices.Clone(s.Genotype)
	if r.PhaseSet == 0 || r.PhaseSet != s.PhaseSet {
		slices.Sort(a)
		slices.Sort(b)
	}
	return slices.Equal(a, b)
}

// record is the revision as a line of a VCF; another alternate allele has a line of its own and is the reference here.
func (r *Revision) record() *vcf.Record {
	text := make([]string, len(r.Genotype))
	for i, n := range r.Genotype {
		text[i] = "0"
		if n == 1 {
			text[i] = "1"
		}
	}
	separator := "/"
	if r.PhaseSet != 0 {
		separator = "|"
	}
	rec := &vcf.Record{
		Chrom: r.Contig, Pos: r.Pos, Ref: r.Ref, Alt: []string{r.Alt}, Qual: r.Qual, Filter: []string{"PASS"},
		Format:  []string{"GT", "GQ", "DP"},
		Samples: [][]string{{cmp.Or(strings.Join(text, separator), "."), strconv.FormatUint(uint64(r.GQ), 10), strconv.Itoa(r.Depth)}},
	}
	if r.PhaseSet != 0 {
		rec.Format = append(rec.Format, "PS")
		rec.Samples[0] = append(rec.Samples[0], strconv.FormatInt(r.PhaseSet, 10))
	}
	return rec
}

// History is the revisions of one sample's calls. Its zero value is empty.
type History struct {
	revisions map[string][]*Revision // by key, by number
	keys      []string               // in the order of their first revision
}

// Add takes a revision; they may come in any order, and again.
func (h *History) Add(r Revision) {
	if h.revisions == nil {
		h.revisions = make(map[string][]*Revision)
	}
	list, known := h.revisions[r.Key]
	if !known {
		h.keys = append(h.keys, r.Key)
	}
	i, found := slices.BinarySearchFunc(list, r.Number, func(s *Revision, n uint64) int { return cmp.Compare(s.Number, n) })
	if !found {
		h.revisions[r.Key] = slices.Insert(list, i, &r)
	}
}

// fold returns the calls that stand for a consumer who has seen the revisions up to a time: the newest of each allele,
// sorted. The zero time is the end of the stream.
func (h *History) fold(g *genome.Genome, until time.Time) []*Revision {
	var list []*Revision
	for _, key := range h.keys {
		var newest *Revision
		for _, r := range h.revisions[key] {
			if until.IsZero() || !r.Time.After(until) {
				newest = r
			}
		}
		if newest != nil && newest.stands() {
			list = append(list, newest)
		}
	}
	slices.SortStableFunc(list, func(a, b *Revision) int {
		return cmp.Or(cmp.Compare(g.Rank(a.Contig), g.Rank(b.Contig)), cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Alt, b.Alt))
	})
	return list
}

// span is the time of the first and the last revision; ok is false if no or only one time is known.
func (h *History) span() (first, last time.Time, ok bool) {
	for _, list := range h.revisions { // extremes: the order does not matter
		for _, r := range list {
			switch {
			case r.Time.IsZero():
				continue
			case first.IsZero() || r.Time.Before(first):
				first = r.Time
			}
			if r.Time.After(last) {
				last = r.Time
			}
		}
	}
	return first, last, last.After(first)
}

// Churn is how much a stream took back and changed.
type Churn struct {
	Alleles   int `json:"alleles"`   // that ever were published
	Revisions int `json:"revisions"` // by their numbers, those that were compacted away included
	Seen      int `json:"revisions_seen"`
	Final     int `json:"final_calls"` // that stand at the end
	// RevisionsPerFinal is the mean number of revisions of the final calls, and RevisionsMax the greatest.
	RevisionsPerFinal *float64 `json:"revisions_per_final_call"`
	RevisionsMax      uint64   `json:"revisions_of_a_final_call_max"`
	Retractions       int      `json:"retractions"` // times that a call that stood was retracted
	Withdrawn         int      `json:"withdrawn"`   // alleles that stood once and don't at the end
	// Stable are the alleles that once stood as STABLE. StableRetracted of them were retracted when they were, and
	// StableWithdrawn do not stand at the end, retracted or with a filter failed.
	Stable          int      `json:"stable"`
	StableRetracted int      `json:"stable_retracted"`
	StableWithdrawn int      `json:"stable_withdrawn"`
	StableRate      *float64 `json:"stable_retracted_rate"`
	Flips           int      `json:"genotype_flips"` // changes of genotype from one revision that stands to the next
	FlipsPerFinal   *float64 `json:"genotype_flips_per_final_call"`
}

// churn counts the history's.
func (h *History) churn() Churn {
	c := Churn{Alleles: len(h.keys)}
	ofFinal := 0
	for _, key := range h.keys {
		list := h.revisions[key]
		newest := list[len(list)-1]
		c.Revisions += int(newest.Number)
		c.Seen += len(list)
		stood, stable, stableRetracted := false, false, false
		for i, r := range list {
			if i > 0 {
				before := list[i-1]
				if before.stands() && r.Status == Retracted {
					c.Retractions++
					stableRetracted = stableRetracted || before.Status == Stable
				}
				if before.stands() && r.stands() && !before.sameGenotype(r) {
					c.Flips++
				}
			}
			stood = stood || r.stands()
			stable = stable || r.stands() && r.Status == Stable
		}
		if stable {
			c.Stable++
		}
		if stableRetracted {
			c.StableRetracted++
		}
		switch {
		case newest.stands():
			c.Final++
			ofFinal += int(newest.Number)
			c.RevisionsMax = max(c.RevisionsMax, newest.Number)
		case stood:
			c.Withdrawn++
			if stable {
				c.StableWithdrawn++
			}
		}
	}
	c.RevisionsPerFinal = ratio(ofFinal, c.Final)
	c.FlipsPerFinal = ratio(c.Flips, c.Final)
	c.StableRate = ratio(c.StableRetracted, c.Stable)
	return c
}

// Spread is a distribution in three figures.
type Spread struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
}

// spread returns that of values; nil for none.
func spread(values []float64) *Spread {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[min(len(values)-1, int(q*float64(len(values))))] }
	return &Spread{Median: at(0.5), P90: at(0.9), Max: values[len(values)-1]}
}

// Arrival is when right calls were there: the revision that first stood with the genotype that was right at the end, and
// the one since which it has stayed.
type Arrival struct {
	Calls          int     `json:"calls"` // right at the end
	FirstDepth     *Spread `json:"first_correct_depth"`
	SettledDepth   *Spread `json:"settled_depth"`
	FirstSeconds   *Spread `json:"first_correct_seconds"` // after the first revision of the stream
	SettledSeconds *Spread `json:"settled_seconds"`
}

// Moment is the comparison of what stood at a time.
type Moment struct {
	Seconds float64  `json:"seconds"` // after the first revision of the stream
	Calls   int      `json:"calls"`
	SNP     *Figures `json:"snp"`
	Indel   *Figures `json:"indel"`
}

// StreamResult is the outcome of a stream.
type StreamResult struct {
	Final   *Result `json:"final"`
	Churn   Churn   `json:"churn"`
	Arrival Arrival `json:"arrival"`
	// Moments are what stood at even steps of time; empty if times are not known.
	Moments []Moment `json:"moments,omitempty"`
}

// CompareStream compares what a stream has published, at its end and at a number of moments before, with the
// truth, whose records are all held in memory. name is the stream's, for errors.
func CompareStream(ctx context.Context, g *genome.Genome, truthSet Set, name string, h *History, moments int, opts Options) (*StreamResult, error) {
	kept, err := hold(truthSet)
	if err != nil {
		return nil, err
	}
	against := func(revisions []*Revision, opts Options) (*Result, map[*vcf.Record]*Revision, error) {
		set := truthSet
		set.Records = &held{header: kept.header, records: kept.records}
		calls := &held{header: vcf.NewHeader("VCFv4.3", "sample")}
		of := make(map[*vcf.Record]*Revision, len(revisions))
		for _, r := range revisions {
			rec := r.record()
			of[rec] = r
			calls.records = append(calls.records, rec)
		}
		result, err := Compare(ctx, g, set, Set{Name: name, Records: calls}, opts)
		return result, of, err
	}
	for _, key := range h.keys {
		if r := h.revisions[key][0]; g.Contig(r.Contig) == nil {
			return nil, fmt.Errorf("%s: the reference has no contig %s: is it another reference?", name, r.Contig)
		}
	}

	var right []*vcf.Record
	each := opts.Each
	opts.Each = func(o Outcome) error {
		if !o.Truth && o.Decision == TruePositive {
			right = append(right, o.Record)
		}
		if each != nil {
			return each(o)
		}
		return nil
	}
	final, of, err := against(h.fold(g, time.Time{}), opts)
	if err != nil {
		return nil, err
	}
	result := &StreamResult{Final: final, Churn: h.churn()}
	first, last, timed := h.span()
	result.Arrival = h.arrival(right, of, first)
	if !timed {
		return result, nil
	}
	opts.Each, opts.Bootstrap = nil, 0
	for i := range moments {
		// The first moment is not the beginning, when there is nothing, and the last is the end.
		at := first.Add(time.Duration(float64(last.Sub(first)) * float64(i+1) / float64(moments)))
		calls := h.fold(g, at)
		r, _, err := against(calls, opts)
		if err != nil {
			return nil, err
		}
		result.Moments = append(result.Moments, Moment{
			Seconds: at.Sub(first).Seconds(), Calls: len(calls),
			SNP: r.Row(everywhere, SNP.String()).Primary(), Indel: r.Row(everywhere, Indel.String()).Primary(),
		})
	}
	return result, nil
}

// hold reads all records of a set into memory.
func hold(s Set) (*held, error) {
	kept := &held{header: s.Records.Header()}
	for {
		rec, err := s.Records.Next()
		if err == io.EOF { //nolint:errorlint // Records say their end so; a fault may have io.EOF inside
			return kept, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		kept.records = append(kept.records, rec)
	}
}

// arrival finds when the right calls were there.
func (h *History) arrival(right []*vcf.Record, of map[*vcf.Record]*Revision, begin time.Time) Arrival {
	a := Arrival{Calls: len(right)}
	var firstDepth, settledDepth, firstSeconds, settledSeconds []float64
	for _, rec := range right {
		final := of[rec]
		var first, settled *Revision
		for _, r := range h.revisions[final.Key] {
			if !r.stands() || !r.sameGenotype(final) {
				settled = nil
				continue
			}
			if first == nil {
				first = r
			}
			if settled == nil {
				settled = r
			}
		}
		firstDepth = append(firstDepth, float64(first.Depth))
		settledDepth = append(settledDepth, float64(settled.Depth))
		if !first.Time.IsZero() && !settled.Time.IsZero() {
			firstSeconds = append(firstSeconds, first.Time.Sub(begin).Seconds())
			settledSeconds = append(settledSeconds, settled.Time.Sub(begin).Seconds())
		}
	}
	a.FirstDepth, a.SettledDepth = spread(firstDepth), spread(settledDepth)
	a.FirstSeconds, a.SettledSeconds = spread(firstSeconds), spread(settledSeconds)
	return a
}

// held is records in memory.
type held struct {
	header  *vcf.Header
	records []*vcf.Record
}

func (h *held) Header() *vcf.Header { return h.header }

func (h *held) Next() (*vcf.Record, error) {
	if len(h.records) == 0 {
		return nil, io.EOF
	}
	rec := h.records[0]
	h.records = h.records[1:]
	return rec, nil
}

// WriteText writes the result as tables for people.
func (r *StreamResult) WriteText(w io.Writer) error {
	if err := r.Final.WriteText(w); err != nil {
		return err
	}
	c := r.Churn
	fmt.Fprintf(w, "\nStream: %d alleles published, %d revisions (%d of them seen), %d calls at the end.\n", c.Alleles, c.Revisions, c.Seen, c.Final)
	fmt.Fprintf(w, "Revisions of a final call: %s on average, at most %d. Genotype changes: %d (%s for each final call).\n", number2(c.RevisionsPerFinal), c.RevisionsMax, c.Flips, number2(c.FlipsPerFinal))
	fmt.Fprintf(w, "Taken back: %d retractions; %d alleles that stood once don't at the end.\n", c.Retractions, c.Withdrawn)
	fmt.Fprintf(w, "Of %d calls that were STABLE, %d were retracted as such and %d don't stand at the end.\n", c.Stable, c.StableRetracted, c.StableWithdrawn)
	if c.Seen < c.Revisions {
		fmt.Fprintln(w, "Revisions are missing (a compacted topic, or pore run's variants.jsonl, which has the newest alone): what was taken back or changed, and when, is known of those seen only.")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if r.Arrival.Calls > 0 {
		fmt.Fprintf(t, "\nRight at the end: %d calls\tmedian\t90 %%\tmost\t\n", r.Arrival.Calls)
		for _, s := range []struct {
			name string
			v    *Spread
		}{
			{"depth when first right", r.Arrival.FirstDepth}, {"depth since when it has stayed so", r.Arrival.SettledDepth},
			{"seconds until first right", r.Arrival.FirstSeconds}, {"seconds until it has stayed so", r.Arrival.SettledSeconds},
		} {
			if s.v != nil {
				fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.4g\t\n", s.name, s.v.Median, s.v.P90, s.v.Max)
			}
		}
	}
	if len(r.Moments) > 0 {
		fmt.Fprint(t, "\nseconds\tcalls\tSNP recall\tprecision\tF1\tINDEL recall\tprecision\tF1\t\n")
		for _, m := range r.Moments {
			fmt.Fprintf(t, "%.4g\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", m.Seconds, m.Calls, share(m.SNP.Recall), share(m.SNP.Precision), share(m.SNP.F1), share(m.Indel.Recall), share(m.Indel.Precision), share(m.Indel.F1))
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing tables: %w", err)
	}
	return nil
}

func number2(v *float64) string {
	if v == nil || math.IsNaN(*v) {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}
