package panel

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/textfile"
)

// State is what is said of a region, in the words of alerts.
type State string

// The states. Suspected: what would be negative is excluded, and the share is none that the rule names.
const (
	Detected    State = "DETECTED"
	Negative    State = "NEGATIVE"
	Suspected   State = "SUSPECTED"
	NotCallable State = "NOT_CALLABLE"
)

// Kind is what a rule asks of a region.
type Kind string

// The kinds.
const (
	Methylated   Kind = "methylated"
	Unmethylated Kind = "unmethylated"
	Half         Kind = "half" // of the molecules, as where one allele is imprinted
)

// stretch are shares from one to another.
type stretch [2]float64

// zones are the shares with which a rule is detected and those with which it is negative. Between them
// neither is said: the gap is for callers' errors.
var zones = map[Kind]struct{ detected, negative []stretch }{
	Methylated:   {[]stretch{{0.5, 1}}, []stretch{{0, 0.2}}},
	Unmethylated: {[]stretch{{0, 0.2}}, []stretch{{0.5, 1}}},
	Half:         {[]stretch{{0.35, 0.65}}, []stretch{{0, 0.2}, {0.8, 1}}},
}

// Region is a rule: what is asked of positions [Start, End) of a contig.
type Region struct {
	Contig     string
	Start, End int
	Name       string
	Kind       Kind
	Code       modbase.Code
	// Sites is how many positions, of both strands together, must have calls.
	Sites int
}

// defaultSites is Region.Sites of rules that don't say.
const defaultSites = 4

// ReadRegions reads rules, one a line: contig, start from 0 on, end, name and kind, with tabs between, and perhaps the code of the
// modification (m if it isn't given) and how many positions must have calls. Empty lines and those from # on
// don't count. Name is that of errors.
func ReadRegions(r io.Reader, name string) ([]Region, error) {
	var all []Region
	seen := make(map[string]bool)
	err := eachLine(r, name, func(columns []string) error {
		region, err := parseRegion(columns)
		if err == nil && seen[region.Name] {
			err = fmt.Errorf("there is another rule %s", textfile.Clip(region.Name, 40))
		}
		seen[region.Name] = true
		all = append(all, region)
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: there is no rule", name)
	}
	return all, err
}

// NewRegion is a rule on a place that asks for kind, of 5mC and with as many positions as rules that say nothing.
func NewRegion(contig string, start, end int, kind string) (Region, error) {
	r := Region{Contig: contig, Start: start, End: end, Kind: Kind(kind), Code: 'm', Sites: defaultSites}
	if _, known := zones[r.Kind]; !known {
		return r, fmt.Errorf("kind %q: want methylated, unmethylated or half", textfile.Clip(kind, 40))
	}
	return r, nil
}

func parseRegion(columns []string) (r Region, err error) {
	if len(columns) < 5 || len(columns) > 7 {
		return r, fmt.Errorf("it has %d columns: want contig, start, end, name and kind, and perhaps code and sites, with tabs between", len(columns))
	}
	contig, start, end, err := parsePlace(columns)
	if err != nil {
		return r, err
	}
	r, err = NewRegion(contig, start, end, columns[4])
	if r.Name = columns[3]; err != nil || r.Name == "" {
		return r, fmt.Errorf("name %q and kind %q: want a name, and methylated, unmethylated or half", textfile.Clip(r.Name, 40), textfile.Clip(columns[4], 40))
	}
	if len(columns) > 5 {
		if r.Code, err = modbase.ParseCode(columns[5]); err != nil {
			return r, fmt.Errorf("code %s", textfile.Clip(err.Error(), 80))
		}
	}
	if len(columns) > 6 {
		if r.Sites, err = strconv.Atoi(columns[6]); err != nil || r.Sites < 1 {
			return r, fmt.Errorf("sites %q: want a number from 1 on", textfile.Clip(columns[6], 40))
		}
	}
	return r, nil
}

// parsePlace reads the first three columns of BED.
func parsePlace(columns []string) (contig string, start, end int, err error) {
	start, err = strconv.Atoi(columns[1])
	if err == nil {
		end, err = strconv.Atoi(columns[2])
	}
	if err != nil || columns[0] == "" || start < 0 || end <= start || end > math.MaxInt32 {
		return "", 0, 0, fmt.Errorf("want a contig and 0 <= start < end, and it has %q", textfile.Clip(strings.Join(columns[:3], " "), 60))
	}
	return columns[0], start, end, nil
}

// eachLine reads the lines of a table, without those that say nothing.
func eachLine(r io.Reader, name string, line func(columns []string) error) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimRight(lines.Text(), "\r")
		if text == "" || text[0] == '#' || strings.HasPrefix(text, "track ") || strings.HasPrefix(text, "browser ") {
			continue
		}
		if err := line(strings.Split(text, "\t")); err != nil {
			return fmt.Errorf("%s: line %d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Tally is what the calls of a region are: of each strand the positions with calls, calls and modified ones.
type Tally [2]struct{ Sites, Calls, Modified int }

// Add takes what the reads say at a position of the region, on one strand.
func (t *Tally) Add(strand pileup.Strand, calls, modified int) {
	if calls == 0 {
		return
	}
	i := 0
	if strand == pileup.Minus {
		i = 1
	}
	t[i].Sites++
	t[i].Calls += calls
	t[i].Modified += modified
}

// Join takes what another one has counted, of other positions.
func (t *Tally) Join(o *Tally) {
	for i := range t {
		t[i].Sites += o[i].Sites
		t[i].Calls += o[i].Calls
		t[i].Modified += o[i].Modified
	}
}

// Calls is how many there are on both strands.
func (t *Tally) Calls() int { return t[0].Calls + t[1].Calls }

// Modified is how many of them are modified.
func (t *Tally) Modified() int { return t[0].Modified + t[1].Modified }

// IsCpG reports whether the position of a contig is the C of a CG on the strand.
func IsCpG(contig []byte, pos int, strand pileup.Strand) bool {
	if strand == pileup.Minus {
		pos--
	}
	return pos >= 0 && pos+2 <= len(contig) && string(contig[pos:pos+2]) == "CG"
}

// Regions counts what rules ask for.
type Regions struct {
	rules   []Region
	tallies []Tally
	at      index
}

// NewRegions counts for rules.
func NewRegions(rules []Region) *Regions {
	return &Regions{rules: rules, tallies: make([]Tally, len(rules)), at: newIndex(len(rules), func(i int) (string, int, int) {
		return rules[i].Contig, rules[i].Start, rules[i].End
	})}
}

// Add takes a row of a contig's pile-up, one for each position, strand and modification; strands may be added up.
func (r *Regions) Add(contig string, row *pileup.Row) {
	if row.Valid() == 0 {
		return
	}
	r.at.each(contig, row.Pos, func(i int) {
		if r.rules[i].Code == row.Code {
			r.tallies[i].Add(row.Strand, row.Valid(), row.Modified)
		}
	})
}

// Answer is what is said of a region.
type Answer struct {
	Region
	State State
	// Share is that of the calls at Covered positions, and Depth the molecules, that answer.
	Share   float64
	Depth   float64
	Covered int
	// Wrong is at most the probability that a sample of which the opposite is true leads to the state; 1 if
	// nothing is said.
	Wrong  float64
	Reason string // why nothing is said, or no more than a suspicion
}

// Answers are those of all rules, in their order. With a probability of at most alpha any of them is DETECTED or SUSPECTED though it is
// negative, and of at most alpha any is NEGATIVE though its share is one of DETECTED.
func (r *Regions) Answers(alpha float64) []Answer {
	list := make([]Answer, len(r.rules))
	for i := range list {
		share := alpha / float64(len(list))
		list[i] = r.rules[i].Answer(&r.tallies[i], share, share)
	}
	return list
}

// Answer is what the calls of the region say of it. With a probability of at most alpha it is DETECTED or SUSPECTED though it is negative,
// and of at most beta NEGATIVE though its share is one of DETECTED.
func (of Region) Answer(t *Tally, alpha, beta float64) Answer {
	a := Answer{Region: of, State: NotCallable, Wrong: 1}
	modified := 0
	for _, s := range t {
		a.Covered += s.Sites
		modified += s.Modified
	}
	if calls := t.Calls(); calls > 0 {
		a.Share = float64(modified) / float64(calls)
		a.Depth = float64(calls) / float64(max(t[0].Sites, t[1].Sites)) // no molecule has calls at more positions
	}
	if a.Covered < of.Sites {
		a.Reason = fmt.Sprintf("%d positions have calls, and %d must", a.Covered, of.Sites)
		return a
	}
	z := zones[of.Kind]
	isNegative, isDetected := bound(a.Share, a.Depth, z.negative), bound(a.Share, a.Depth, z.detected)
	switch {
	case isNegative <= alpha && within(a.Share, z.detected):
		a.State, a.Wrong = Detected, isNegative
	case isDetected <= beta && within(a.Share, z.negative):
		a.State, a.Wrong = Negative, isDetected
	case isNegative <= alpha:
		a.State, a.Wrong, a.Reason = Suspected, isNegative, "the share is neither that of the rule nor of its opposite"
	default:
		a.Reason = "too few molecules to decide"
	}
	return a
}

// Needed are the depths from which on a region is DETECTED, and NEGATIVE, where it is as clear as can be: all or no calls are modified,
// or half of them.
func (of Region) Needed(alpha, beta float64) (detected, negative int) {
	z := zones[of.Kind]
	clear := map[Kind]float64{Methylated: 1, Half: 0.5}[of.Kind] // of Unmethylated it is 0
	opposite := 0.0
	if of.Kind == Unmethylated {
		opposite = 1
	}
	return depthFor(clear, z.negative, alpha), depthFor(opposite, z.detected, beta)
}

// depthFor is the least depth at which a share excludes a zone.
func depthFor(share float64, zone []stretch, alpha float64) int {
	depth := 1
	for bound(share, float64(depth), zone) > alpha {
		depth++
	}
	return depth
}

func within(share float64, zone []stretch) bool {
	return slices.ContainsFunc(zone, func(s stretch) bool { return share >= s[0] && share <= s[1] })
}

// bound is at most the probability that a sample whose share is in a zone shows one as far from there as q, or farther, at a depth.
func bound(q, depth float64, zone []stretch) float64 {
	p := 0.0
	for _, s := range zone {
		nearest := min(max(q, s[0]), s[1])
		p = max(p, math.Exp(-depth*divergence(q, nearest)))
	}
	return p
}

// divergence is that of Kullback and Leibler of a coin that shows q from one that shows p.
func divergence(q, p float64) float64 {
	term := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	if q == p {
		return 0
	}
	return term(q, p) + term(1-q, 1-p)
}

// RegionHeader names the columns of a table of answers.
const RegionHeader = "#name\tcontig\tstart\tend\tkind\tcode\tstate\tshare\tdepth\tpositions\twrong\treason\n"

// Append appends the answer as a line of a table.
func (a *Answer) Append(b []byte) []byte {
	return fmt.Appendf(b, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%.4f\t%.1f\t%d\t%.2g\t%s\n", a.Name, a.Contig, a.Start, a.End, a.Kind, a.Code, a.State,
		a.Share, a.Depth, a.Covered, a.Wrong, cmp.Or(a.Reason, "."))
}

// errNoSites says that a list is empty.
var errNoSites = errors.New("there is no site")

// index finds which of some stretches have a position.
type index struct {
	contigs map[string]*ordered
}

type ordered struct {
	list []indexed // by start
}

type indexed struct {
	start, end, number int
	reach              int // the farthest end up to this one
}

func newIndex(n int, place func(i int) (contig string, start, end int)) index {
	x := index{make(map[string]*ordered)}
	for i := range n {
		contig, start, end := place(i)
		if x.contigs[contig] == nil {
			x.contigs[contig] = new(ordered)
		}
		o := x.contigs[contig]
		o.list = append(o.list, indexed{start: start, end: end, number: i})
	}
	for _, o := range x.contigs {
		slices.SortStableFunc(o.list, func(a, b indexed) int { return cmp.Compare(a.start, b.start) })
		reach := 0
		for i := range o.list {
			reach = max(reach, o.list[i].end)
			o.list[i].reach = reach
		}
	}
	return x
}

// each calls yield with the numbers of the stretches that have a position.
func (x *index) each(contig string, pos int, yield func(i int)) {
	o := x.contigs[contig]
	if o == nil {
		return
	}
	behind, _ := slices.BinarySearchFunc(o.list, pos, func(e indexed, pos int) int {
		if e.start <= pos {
			return -1
		}
		return 1
	})
	for i := behind - 1; i >= 0 && o.list[i].reach > pos; i-- {
		if o.list[i].end > pos {
			yield(o.list[i].number)
		}
	}
}
