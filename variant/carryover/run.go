package carryover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vrs"
)

// Controls are the controls of a run by name.
type Controls map[string]Kind

// Among returns the controls by the names that a run's samples have. A barcode stands for the sample of it: barcode12 for run7_barcode12. An error names a
// control that isn't among the samples; where is what they are those of, for people.
func (c Controls) Among(samples []string, where string) (Controls, error) {
	among, missing := c.Split(samples)
	if len(missing) > 0 {
		return nil, fmt.Errorf("control %s is not among the samples of %s, which are %s", slices.Min(slices.Collect(maps.Keys(missing))), where, textfile.Few(slices.Sorted(slices.Values(samples))))
	}
	if len(c) > 0 && len(among) == len(samples) {
		return nil, errors.New("all samples of " + where + " are controls: there is nothing that they could bound")
	}
	return among, nil
}

// Split are the controls that are among samples, by what they are called there, and the others.
func (c Controls) Split(samples []string) (among, missing Controls) {
	among, missing = make(Controls), make(Controls)
	for _, name := range slices.Sorted(maps.Keys(c)) { // the last one counts where two are of one sample
		if sample, ok := Find(samples, name); ok {
			among[sample] = c[name]
		} else {
			missing[name] = c[name]
		}
	}
	return among, missing
}

// Find is the sample that a name stands for: its own, or that of a barcode.
func Find(samples []string, name string) (string, bool) {
	i := slices.Index(samples, name)
	if i < 0 && strings.HasPrefix(name, "barcode") {
		i = slices.IndexFunc(samples, func(s string) bool { return strings.HasSuffix(s, "_"+name) })
	}
	if i < 0 {
		return "", false
	}
	return samples[i], true
}

// Table is the reads that all samples of a run show at the alleles that any of them is called with.
type Table struct {
	controls Controls
	samples  []string
	alleles  map[string][]vrs.Edit         // by contig
	counts   map[string]map[string][]Reads // by sample and contig, in the order of alleles
	sorted   bool
	silent   []string // once known
	bounds   *bounds
}

// NewTable is a table of a run's samples without an allele. Controls are among the samples.
func NewTable(controls Controls, samples []string) *Table {
	return &Table{controls: controls, samples: slices.Sorted(slices.Values(samples)), alleles: make(map[string][]vrs.Edit), counts: make(map[string]map[string][]Reads), bounds: newBounds()}
}

// Assesses reports whether a sample's alleles are assessed: it is one of the run and no control.
func (t *Table) Assesses(sample string) bool {
	_, is := t.controls[sample]
	return !is && slices.Contains(t.samples, sample)
}

// Silent lists the controls of which no read lies at any of the alleles, if there are some.
func (t *Table) Silent() []string {
	if t.silent != nil {
		return t.silent
	}
	silent := []string{}
	for _, name := range t.samples {
		seen := len(t.alleles) == 0
		for _, reads := range t.counts[name] {
			seen = seen || slices.ContainsFunc(reads, func(r Reads) bool { return r.Depth > 0 })
		}
		if _, is := t.controls[name]; is && !seen {
			silent = append(silent, name)
		}
	}
	t.silent = silent
	return silent
}

// SilentWarning says what a control without reads means, a line for people.
func SilentWarning(control string, kind Kind) string {
	if kind == NoTemplate {
		return fmt.Sprintf("control %s has no read at any allele that was called, which doesn't show whether it is clean or wasn't sequenced: carry-over isn't bounded by it. If it was, at most %.1f reads of others got into a sample; alleles with as few are marked", control, upperPoisson(0, Alpha/2))
	}
	return fmt.Sprintf("control %s has no read at any allele that was called, so it bounds nothing: was it sequenced?", control)
}

// Add has reads counted at an allele.
func (t *Table) Add(contig string, e vrs.Edit) {
	t.alleles[contig] = append(t.alleles[contig], e.Trim())
	t.sorted, t.silent = false, nil
}

// Alleles are those whose reads are to be counted, by contig, each once, by position.
func (t *Table) Alleles() map[string][]vrs.Edit {
	if !t.sorted {
		for contig, list := range t.alleles {
			slices.SortFunc(list, CompareEdits)
			t.alleles[contig] = slices.Compact(list)
		}
		t.sorted = true
	}
	return t.alleles
}

// CompareEdits is the order of [Table.Alleles].
func CompareEdits(a, b vrs.Edit) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Alt, b.Alt))
}

// Count takes in what reads a sample has at alleles of a contig from one on, in the order of [Table.Alleles].
func (t *Table) Count(sample, contig string, first int, reads []Reads) {
	if t.counts[sample] == nil {
		t.counts[sample] = make(map[string][]Reads)
	}
	if t.counts[sample][contig] == nil {
		t.counts[sample][contig] = make([]Reads, len(t.Alleles()[contig]))
	}
	copy(t.counts[sample][contig][first:], reads)
	t.silent = nil
}

// Assess says what carry-over explains of an allele that a sample is called with; nil if the allele wasn't added.
func (t *Table) Assess(sample, contig string, e vrs.Edit) *Assessment {
	n, known := slices.BinarySearchFunc(t.Alleles()[contig], e.Trim(), CompareEdits)
	if !known {
		return nil
	}
	reads := func(sample string) Reads {
		if counts := t.counts[sample][contig]; counts != nil {
			return counts[n]
		}
		return Reads{}
	}
	var controls []Control
	others := 0
	for _, name := range t.samples {
		kind, is := t.controls[name]
		switch {
		case name == sample:
		case is:
			controls = append(controls, Control{Name: name, Kind: kind, Reads: reads(name), Silent: slices.Contains(t.Silent(), name)})
		default:
			others += reads(name).all()
		}
	}
	j := assess(reads(sample), others, controls, t.bounds)
	return &j
}

// Summary is what carry-over came to in a sample's calls.
type Summary struct {
	Assessed  int `json:"judged"`    // alleles that were called
	Marked    int `json:"marked"`    // that can't be distinguished from carry-over
	Unbounded int `json:"unbounded"` // at which no control bounds anything
}

// Add counts an assessment.
func (s *Summary) Add(j Assessment) {
	s.Assessed++
	if j.Explained {
		s.Marked++
	}
	if !j.Bounded() {
		s.Unbounded++
	}
}

// String is a summary for people.
func (s Summary) String() string {
	text := fmt.Sprintf("%d of %d alleles are explained by carry-over", s.Marked, s.Assessed)
	if s.Unbounded > 0 {
		text += fmt.Sprintf("; %d are not bounded, since no control has reads there, or controls have them", s.Unbounded)
	}
	return text
}
