package simulate

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ProfileFormat is the version of the profile files that this package reads and writes.
const ProfileFormat = 1

// Sizes of a profile's tables.
const (
	contextBases = 5 // bases of a context; the middle one is the base that the rates are of
	contexts     = 1 << (2 * contextBases)
	siteBases    = 9 // bases that a systematic error depends on
	siteContexts = 1 << (2 * siteBases)
	maxRunLength = 16 // longer runs are called as those of this length, more or less
	runChanges   = 13 // columns of a run's row: called lengths from 6 fewer to 6 more
	noChange     = 6  // the column of the right length
	qualities    = 61 // Phred qualities from 0 to 60
)

// Profile says what errors the reads of a pore and a basecaller have. All rates are
// per base of the template, in the direction of reading, and averages over reads.
//
// The file format is TOML, with these names; docs/files/simulation.md describes it.
type Profile struct {
	Format      int    `toml:"format"`
	Name        string `toml:"name"`
	Description string `toml:"description"`
	// Source names the data that the profile was measured on.
	Source string `toml:"source"`
	// ErrorRate is substituted, inserted and deleted bases per base of the template,
	// as measured. It is for information.
	ErrorRate float64 `toml:"error_rate"`
	// Seed chooses the sites of systematic errors.
	Seed uint64 `toml:"seed"`

	Reads struct {
		// Spread is the standard deviation, between reads, of the logarithm of their
		// rate of errors.
		Spread float64 `toml:"spread"`
	} `toml:"reads"`

	Bursts Bursts `toml:"bursts"`

	Systematic struct {
		// Substitutions, Deletions and Insertions are the shares of sites, each strand
		// by itself, with such an error.
		Substitutions float64 `toml:"substitutions"`
		Deletions     float64 `toml:"deletions"`
		Insertions    float64 `toml:"insertions"`
		// Fractions are quantiles, evenly spaced from 0 to 1, of the share of reads
		// that have the error.
		Fractions []float64 `toml:"fractions"`
	} `toml:"systematic"`

	Insertions struct {
		Lengths []float64 `toml:"lengths"` // shares of the lengths 1, 2, ...
		Bases   []float64 `toml:"bases"`   // shares of A, C, G and T
	} `toml:"insertions"`

	Deletions struct {
		Rate    float64   `toml:"rate"`    // deletions that span several runs, per base
		Lengths []float64 `toml:"lengths"` // shares of the lengths 2, 3, ...
	} `toml:"deletions"`

	// Runs are, by base, the shares of called lengths of runs of 2, 3, ... to 16
	// bases: from 6 fewer to 6 more.
	Runs struct {
		// SiteSpread is the standard deviation, between surroundings, of the log odds
		// that a run is called with a wrong length.
		SiteSpread float64     `toml:"site_spread"`
		A          [][]float64 `toml:"A"`
		C          [][]float64 `toml:"C"`
		G          [][]float64 `toml:"G"`
		T          [][]float64 `toml:"T"`
	} `toml:"runs"`

	Qualities struct {
		// Correlation is that of normal scores of neighbouring bases' qualities.
		Correlation float64 `toml:"correlation"`
		// ReadShare is the share of the variance of normal scores that lies between
		// reads, and goes with their rate of errors.
		ReadShare float64 `toml:"read_share"`
		// How many bases have each quality from 0 to 60: by themselves right, right in
		// a run of 4 and more, right beside an error, substituted, inserted.
		Right    []float64 `toml:"right"`
		InRun    []float64 `toml:"in_run"`
		Beside   []float64 `toml:"beside"`
		Wrong    []float64 `toml:"wrong"`
		Inserted []float64 `toml:"inserted"`
	} `toml:"qualities"`

	// Contexts are, by 5-mer, the rates at which its middle base is called A, C, G and
	// T, deleted, doubled (both only where it is a run by itself), and followed by other
	// bases.
	Contexts map[string][]float64 `toml:"contexts"`
}

// Bursts are stretches of reads with more errors.
type Bursts struct {
	Share  float64 `toml:"share"`  // of the bases that are in a burst
	Length float64 `toml:"length"` // of a burst, in bases of the template; mean
	Factor float64 `toml:"factor"` // rate of errors in a burst over that outside
}

// strength is the standard deviation of the rate of errors over its mean.
func (b Bursts) strength() float64 {
	mean := 1 - b.Share + float64(b.Share*b.Factor)
	return math.Sqrt(b.Share*(1-b.Share)) * math.Abs(b.Factor-1) / mean
}

// The columns of a context's rates from the fifth on.
const (
	deletedColumn = 4 + iota
	doubledColumn
	insertedColumn
	contextColumns
)

//go:embed profiles/*.toml
var shipped embed.FS

// Profiles lists the profiles that come with the package.
func Profiles() []string {
	entries, _ := fs.ReadDir(shipped, "profiles") // the embedded folder always reads
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".toml")
	}
	return names
}

// OpenProfile opens a profile that comes with the package, by its name, or one in a
// file, by its path.
func OpenProfile(name string) (*Profile, error) {
	var text []byte
	var err error
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".toml") {
		text, err = os.ReadFile(name)
	} else {
		text, err = shipped.ReadFile("profiles/" + name + ".toml")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening profile %q: neither a file nor one of the shipped profiles (%s)", name, strings.Join(Profiles(), ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening profile: %w", err)
	}
	p, err := ParseProfile(text)
	if err != nil {
		return nil, fmt.Errorf("opening profile %s: %w", name, err)
	}
	return p, nil
}

// ParseProfile reads a profile from TOML.
func ParseProfile(text []byte) (*Profile, error) {
	p := new(Profile)
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
			row, _ := unknown.Errors[0].Position()
			return nil, fmt.Errorf("line %d: unknown setting %s", row, strings.Join(unknown.Errors[0].Key(), "."))
		}
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			row, _ := syntax.Position()
			return nil, fmt.Errorf("line %d: %w", row, err)
		}
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// check says what is wrong with a profile.
func (p *Profile) check() error {
	if p.Format != ProfileFormat {
		return fmt.Errorf("format is %d, this version reads %d", p.Format, ProfileFormat)
	}
	if p.Name == "" {
		return errors.New("name is missing")
	}
	for _, check := range []func() error{p.checkNumbers, p.checkSystematic, p.checkDistributions, p.checkRuns, p.checkContexts} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkNumbers checks what is a number by itself.
func (p *Profile) checkNumbers() error {
	for _, c := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"reads.spread", p.Reads.Spread, 0, 3},
		{"bursts.share", p.Bursts.Share, 0, 0.9},
		{"bursts.length", p.Bursts.Length, 0, 1e6},
		{"bursts.factor", p.Bursts.Factor, 0, 1000},
		{"systematic.substitutions", p.Systematic.Substitutions, 0, 0.2},
		{"systematic.deletions", p.Systematic.Deletions, 0, 0.2},
		{"systematic.insertions", p.Systematic.Insertions, 0, 0.2},
		{"deletions.rate", p.Deletions.Rate, 0, 0.2},
		{"runs.site_spread", p.Runs.SiteSpread, 0, 5},
		{"qualities.correlation", p.Qualities.Correlation, 0, 0.999},
		{"qualities.read_share", p.Qualities.ReadShare, 0, 0.999},
	} {
		if !(c.value >= c.least && c.value <= c.most) {
			return fmt.Errorf("%s is %v, want %v to %v", c.name, c.value, c.least, c.most)
		}
	}
	if p.Bursts.Share > 0 && (p.Bursts.Length < 1 || p.Bursts.Factor == 0) {
		return errors.New("bursts need a length of at least 1 and a factor")
	}
	return nil
}

// checkSystematic checks places at which reads are wrong together.
func (p *Profile) checkSystematic() error {
	if p.Systematic.Substitutions+p.Systematic.Deletions+p.Systematic.Insertions > 0 && len(p.Systematic.Fractions) < 2 {
		return errors.New("systematic.fractions: want at least 2 quantiles")
	}
	for i, f := range p.Systematic.Fractions {
		if !(f >= 0 && f <= 1) || i > 0 && f < p.Systematic.Fractions[i-1] {
			return errors.New("systematic.fractions: want quantiles from 0 to 1, ascending")
		}
	}
	return nil
}

// checkDistributions checks shares that add up to one.
func (p *Profile) checkDistributions() error {
	if len(p.Insertions.Bases) != 4 {
		return fmt.Errorf("insertions.bases has %d values, want 4", len(p.Insertions.Bases))
	}
	for _, t := range []struct {
		name   string
		shares []float64
		length int // 0: any
	}{
		{"insertions.lengths", p.Insertions.Lengths, 0},
		{"insertions.bases", p.Insertions.Bases, 4},
		{"deletions.lengths", p.Deletions.Lengths, 0},
		{"qualities.right", p.Qualities.Right, qualities},
		{"qualities.in_run", p.Qualities.InRun, qualities},
		{"qualities.beside", p.Qualities.Beside, qualities},
		{"qualities.wrong", p.Qualities.Wrong, qualities},
		{"qualities.inserted", p.Qualities.Inserted, qualities},
	} {
		if t.length > 0 && len(t.shares) != t.length {
			return fmt.Errorf("%s has %d values, want %d", t.name, len(t.shares), t.length)
		}
		if err := checkShares(t.shares); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// checkRuns checks changes of the length of runs of one base.
func (p *Profile) checkRuns() error {
	for i, rows := range p.runRows() {
		if len(rows) != maxRunLength-1 {
			return fmt.Errorf("runs.%c has %d rows, want one for each length from 2 to %d", letters[i], len(rows), maxRunLength)
		}
		for n, row := range rows {
			if len(row) != runChanges {
				return fmt.Errorf("runs.%c, length %d: %d values, want %d", letters[i], n+2, len(row), runChanges)
			}
			if err := checkShares(row); err != nil {
				return fmt.Errorf("runs.%c, length %d: %w", letters[i], n+2, err)
			}
		}
	}
	return nil
}

// checkContexts checks the rates of errors by 5-mer.
func (p *Profile) checkContexts() error {
	if len(p.Contexts) != contexts {
		return fmt.Errorf("contexts has %d rows, want all %d 5-mers", len(p.Contexts), contexts)
	}
	for kmer := range contexts {
		row, ok := p.Contexts[spell(kmer, contextBases)]
		if !ok {
			return fmt.Errorf("contexts has no row for %s", spell(kmer, contextBases))
		}
		if len(row) != contextColumns {
			return fmt.Errorf("contexts.%s has %d values, want %d", spell(kmer, contextBases), len(row), contextColumns)
		}
		total := 0.0
		for _, v := range row {
			if !(v >= 0) {
				return fmt.Errorf("contexts.%s: %v is no rate", spell(kmer, contextBases), v)
			}
			total += v
		}
		if total >= 1 {
			return fmt.Errorf("contexts.%s: rates add up to %v, want less than 1", spell(kmer, contextBases), total)
		}
	}
	return nil
}

// checkShares says whether values, not all 0, can be shares or counts.
func checkShares(values []float64) error {
	total := 0.0
	for _, v := range values {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%v is no share", v)
		}
		total += v
	}
	if total == 0 {
		return errors.New("all shares are 0")
	}
	return nil
}

// runRows returns the rows of runs by base.
func (p *Profile) runRows() [4][][]float64 {
	return [4][][]float64{p.Runs.A, p.Runs.C, p.Runs.G, p.Runs.T}
}

// spell writes a k-mer's code.
func spell(kmer, bases int) string {
	text := make([]byte, bases)
	for i := bases - 1; i >= 0; i-- {
		text[i] = letters[kmer&3]
		kmer >>= 2
	}
	return string(text)
}

// middle is the code of the middle base of a context.
func middle(kmer int) int { return kmer >> (contextBases / 2 * 2) & 3 }

// single says whether the middle base of a context is a run by itself.
func single(kmer int) bool {
	m := middle(kmer)
	return kmer>>2&3 != m && kmer>>6&3 != m
}

// mostErrors is how often a context is wrong at the most when rates are multiplied.
const mostErrors = 0.95

// Scale returns a profile with all rates of errors multiplied, wrong lengths of runs by
// their odds, and another seed for its systematic errors. A context of which more than all
// reads would be wrong keeps the proportions of its errors.
func (p *Profile) Scale(factor float64, name string, seed uint64) *Profile {
	out := *p
	out.Name, out.Seed = name, seed
	out.ErrorRate *= factor
	out.Deletions.Rate *= factor
	out.Systematic.Substitutions *= factor
	out.Systematic.Deletions *= factor
	out.Systematic.Insertions *= factor
	rows := p.runRows()
	for i, to := range []*[][]float64{&out.Runs.A, &out.Runs.C, &out.Runs.G, &out.Runs.T} {
		*to = nil
		for _, row := range rows[i] {
			row = slices.Clone(row)
			for k := range row {
				if k != noChange {
					row[k] *= factor
				}
			}
			normalise(row)
			*to = append(*to, row)
		}
	}
	out.Contexts = make(map[string][]float64, len(p.Contexts))
	for kmer, row := range p.Contexts {
		row = slices.Clone(row)
		by := factor
		if total := sum(row); total*factor > mostErrors {
			by = mostErrors / total
		}
		for k := range row {
			row[k] *= by
		}
		out.Contexts[kmer] = row
	}
	return &out
}

// normalise makes values shares of their sum.
func normalise(values []float64) {
	if total := sum(values); total > 0 {
		for i := range values {
			values[i] /= total
		}
	}
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// AppendTOML appends the profile as a file.
func (p *Profile) AppendTOML(b []byte) []byte {
	line := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	line("# Errors of simulated reads; docs/files/simulation.md describes the format.")
	line("format = %d", p.Format)
	line("name = %q", p.Name)
	line("description = %q", p.Description)
	line("source = %q", p.Source)
	line("error_rate = %s", number(p.ErrorRate))
	line("seed = %d", p.Seed)
	line("\n[reads]\nspread = %s", number(p.Reads.Spread))
	line("\n[bursts]\nshare = %s\nlength = %s\nfactor = %s", number(p.Bursts.Share), number(p.Bursts.Length), number(p.Bursts.Factor))
	s := &p.Systematic
	line("\n[systematic]\nsubstitutions = %s\ndeletions = %s\ninsertions = %s\nfractions = %s", number(s.Substitutions), number(s.Deletions), number(s.Insertions), list(s.Fractions))
	line("\n[insertions]\nlengths = %s\nbases = %s", list(p.Insertions.Lengths), list(p.Insertions.Bases))
	line("\n[deletions]\nrate = %s\nlengths = %s", number(p.Deletions.Rate), list(p.Deletions.Lengths))
	line("\n[runs]\nsite_spread = %s", number(p.Runs.SiteSpread))
	for i, rows := range p.runRows() {
		line("%c = [", letters[i])
		for _, row := range rows {
			line("  %s,", list(row))
		}
		line("]")
	}
	q := &p.Qualities
	line("\n[qualities]\ncorrelation = %s\nread_share = %s", number(q.Correlation), number(q.ReadShare))
	line("right = %s\nin_run = %s\nbeside = %s\nwrong = %s\ninserted = %s", list(q.Right), list(q.InRun), list(q.Beside), list(q.Wrong), list(q.Inserted))
	line("\n[contexts] # called A, C, G, T; deleted, doubled, followed by others")
	for kmer := range contexts {
		text := spell(kmer, contextBases)
		line("%s = %s", text, list(p.Contexts[text]))
	}
	return b
}

// number writes a rate with the digits that it can have.
func number(v float64) string {
	if v < 1e-7 {
		v = 0 // never seen, in effect
	}
	text := fmt.Sprintf("%.4g", v)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func list(values []float64) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(number(v))
	}
	b.WriteByte(']')
	return b.String()
}
