package squiggle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Profile is what a chemistry does with k-mers' levels, measured of real reads: how long
// bases stay, how far a visit is off its level, and how its samples scatter, as quantiles
// instead of families of distributions. [ReadProfile] has its file format.
type Profile struct {
	Name       string // as "r10.4.1-5khz"
	Chemistry  string // as signal.Run.Chemistry has it
	Source     []string
	K, Centre  int // of the levels that it is for; as in Model
	SampleRate int // Hz

	// CentrePA and ScalePA are the current of level 0 and of one level; the others are
	// their standard deviations between reads, and their correlation.
	CentrePA, CentreSpreadPA     float64
	ScalePA, ScaleSpreadPA       float64
	ScaleWithCentre              float64
	OpenPorePA, OpenPoreSpreadPA float64
	Correlation                  [3]float64 // of noise, at 1, 2 and 3 samples
	SpeedSpread, NoiseSpread     float64    // of their logarithms, between reads
	Drift, DriftSeconds          float64
	Still, StillLevel            float64

	// Quantiles at (1 − cos(π i/128))/2, i = 0 to 128: of the samples of a visit; of what
	// its level is off the k-mer's, if levels are the shipped ones, and if they are
	// published ones, which are nearer the truth; and of the standard deviation of its
	// noise. Levels are in units of standard deviations of the table.
	Dwell, Residual, ResidualPublished, Noise []float64

	// Change is by how much the level of a visit changes within it, once and either way,
	// as quantiles; DwellWords and NoiseWords are by what time and scatter (noise and
	// change) of a word differ: the logarithm of a factor, as parts of the k-mer. Profiles
	// of format 1 have none of the three.
	Change                 []float64
	DwellWords, NoiseWords []Part

	// Lasts is for which part of a visit its level is changed, before it is again what it was,
	// and When which part of the rest has passed before, as quantiles;
	// RiseWords are how likely it rises rather than falls: the logarithm of the odds, as
	// parts of the k-mer. Profiles of formats 1 and 2 have none of the three: a change lasts
	// to the visit's end, comes at any moment, and goes either way as often.
	Lasts, When []float64
	RiseWords   []Part
}

// QuantileAt is the share of visits below quantile i of a profile, 0 <= i < Quantiles.
func QuantileAt(i int) float64 { return float64((1 - math.Cos(math.Pi*float64(i)/(Quantiles-1))) / 2) }

// Quantiles is how many a profile has of each distribution. They lie close at both ends.
const Quantiles = 129

const (
	profileMagic = "porestream-pore-profile"
	levelsMagic  = "porestream-pore-levels"
	// The format's versions: all visits alike; with words and with changes of level within a
	// visit; and with how long these last, when they come and which way they go.
	formatPlain, formatWords, formatTurns = "1", "2", "3"
	// maxProfileBytes bounds a profile's line and maxParts a table's parts.
	maxProfileBytes = 1 << 20
	maxParts        = 64
)

// field is a line of a profile: its numbers, in the order in which they are written.
type field struct {
	key         string
	to          []*float64
	least, most float64
}

// fields are the lines of numbers, in their order.
func (p *Profile) fields(format string) []field {
	table := func(t *[]float64) (to []*float64) {
		if len(*t) != Quantiles {
			*t = make([]float64, Quantiles)
		}
		for i := range *t {
			to = append(to, &(*t)[i])
		}
		return to
	}
	c := &p.Correlation
	f := []field{
		{"center_pa", []*float64{&p.CentrePA, &p.CentreSpreadPA}, 0, 1000},
		{"scale_pa", []*float64{&p.ScalePA, &p.ScaleSpreadPA}, 0, 1000},
		{"scale_with_center", []*float64{&p.ScaleWithCentre}, -1, 1},
		{"open_pore_pa", []*float64{&p.OpenPorePA, &p.OpenPoreSpreadPA}, 0, 2000},
		{"noise_autocorrelation", []*float64{&c[0], &c[1], &c[2]}, -1, 1},
		{"speed_log_sd", []*float64{&p.SpeedSpread}, 0, 1},
		{"read_noise_log_sd", []*float64{&p.NoiseSpread}, 0, 1},
		{"drift_sd", []*float64{&p.Drift}, 0, 10},
		{"drift_seconds", []*float64{&p.DriftSeconds}, 0.001, 1e6},
		{"still_seconds", []*float64{&p.Still}, 0, 60},
		{"still_level", []*float64{&p.StillLevel}, -10, 10},
		{"dwell", table(&p.Dwell), 0, 1e6},
		{"residual", table(&p.Residual), -maxLevel, maxLevel},
		{"residual_published", table(&p.ResidualPublished), -maxLevel, maxLevel},
		{"noise", table(&p.Noise), 0, maxLevel},
	}
	if format != formatPlain {
		f = append(f, field{"change", table(&p.Change), 0, maxLevel})
	}
	if format == formatTurns {
		f = append(f, field{"lasts", table(&p.Lasts), 0, 1}, field{"when", table(&p.When), 0, 1})
	}
	return f
}

// format is the version that a profile is written in.
func (p *Profile) format() string {
	switch {
	case len(p.Change) == 0:
		return formatPlain
	case len(p.Lasts) == 0:
		return formatWords
	}
	return formatTurns
}

// ReadProfile reads a profile: lines of a key and its values, separated by tabs, in this
// order and all there. Lines that begin with # and empty ones are left out.
//
//	porestream-pore-profile  the format's version, 1 to 3
//	name, chemistry          text
//	source                   text; any number of such lines
//	k, centre, sample_rate   whole numbers
//	center_pa, scale_pa      the current of level 0 and of one level, with its standard
//	                         deviation between reads
//	scale_with_center        their correlation
//	open_pore_pa             with its standard deviation
//	noise_autocorrelation    at 1, 2 and 3 samples
//	speed_log_sd, read_noise_log_sd, drift_sd, drift_seconds, still_seconds, still_level
//	dwell, residual, residual_published, noise
//	                         129 quantiles each, at (1 − cos(π i/128))/2, which don't fall
//	change                   from format 2 on: likewise
//	lasts, when              from format 3 on: likewise
//	dwell_word, noise_word   from format 2 on: offset, width, and what each of the 4^width
//	                         combinations of bases adds to the logarithm, in thousandths;
//	                         any number of such lines
//	rise_word                from format 3 on: likewise, to the logarithm of the odds
//
// [Profile] has what they mean.
func ReadProfile(r io.Reader) (*Profile, error) {
	p := new(Profile)
	in := newRecords(r, profileMagic, formatPlain, formatWords, formatTurns)
	for _, f := range []struct {
		key string
		to  *string
	}{{"name", &p.Name}, {"chemistry", &p.Chemistry}} {
		values := in.next(f.key, 1)
		*f.to = values[0]
	}
	for in.peek() == "source" {
		p.Source = append(p.Source, in.next("source", 1)[0])
	}
	in.whole("k", &p.K, minK, maxK)
	in.whole("centre", &p.Centre, 0, maxK-1)
	in.whole("sample_rate", &p.SampleRate, 100, 60_000)
	for _, f := range p.fields(in.format) {
		in.numbers(f)
	}
	if in.format != formatPlain {
		p.DwellWords, p.NoiseWords = in.parts("dwell_word", p.K), in.parts("noise_word", p.K)
	}
	if in.format == formatTurns {
		p.RiseWords = in.parts("rise_word", p.K)
	}
	if err := in.done(); err != nil {
		return nil, fmt.Errorf("reading a pore profile: %w", err)
	}
	for _, t := range []struct {
		key string
		q   []float64
	}{{"dwell", p.Dwell}, {"residual", p.Residual}, {"residual_published", p.ResidualPublished}, {"noise", p.Noise}, {"change", p.Change}, {"lasts", p.Lasts}, {"when", p.When}} {
		if !slices.IsSorted(t.q) {
			return nil, fmt.Errorf("reading a pore profile: %s: quantiles that fall", t.key)
		}
	}
	switch {
	case p.Centre >= p.K:
		return nil, fmt.Errorf("reading a pore profile: centre %d of k-mers of %d bases", p.Centre, p.K)
	case !(p.ScalePA > 0):
		return nil, errors.New("reading a pore profile: scale_pa is 0")
	case p.Dwell[Quantiles-1] == 0:
		return nil, errors.New("reading a pore profile: no base takes time")
	}
	return p, nil
}

// AppendText writes a profile as [ReadProfile] reads it, with four digits of each number.
func (p *Profile) AppendText(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s\t%s\nname\t%s\nchemistry\t%s\n", profileMagic, p.format(), p.Name, p.Chemistry)
	for _, s := range p.Source {
		dst = fmt.Appendf(dst, "source\t%s\n", s)
	}
	dst = fmt.Appendf(dst, "k\t%d\ncentre\t%d\nsample_rate\t%d\n", p.K, p.Centre, p.SampleRate)
	for _, f := range p.fields(p.format()) {
		dst = append(dst, f.key...)
		for _, v := range f.to {
			dst = append(dst, '\t')
			dst = strconv.AppendFloat(dst, *v, 'g', 4, 64)
		}
		dst = append(dst, '\n')
	}
	dst = appendParts(appendParts(dst, "dwell_word", p.DwellWords), "noise_word", p.NoiseWords)
	return appendParts(dst, "rise_word", p.RiseWords)
}

// Apply gives a table's levels the visits of a profile. Levels are brought to mean 0 and
// standard deviation 1 over all k-mers; published says that they are not the shipped
// ones.
func (p *Profile) Apply(m *Model, published bool) (*Model, error) {
	if m.K != p.K {
		return nil, fmt.Errorf("the profile %s is for k-mers of %d bases, and the table's have %d", p.Name, p.K, m.K)
	}
	n, sum, square := float64(len(m.kmers)), 0.0, 0.0
	for i := range m.kmers {
		sum += m.kmers[i].mean
	}
	mean := sum / n
	for i := range m.kmers {
		d := m.kmers[i].mean - mean
		square += float64(d * d)
	}
	deviation := math.Sqrt(square / n)
	if !(deviation > 0) {
		return nil, errors.New("all levels are the same")
	}
	out := &Model{
		Chemistry: p.Chemistry, K: p.K, Centre: p.Centre, SampleRate: p.SampleRate,
		CentrePA: p.CentrePA, CentreSpreadPA: p.CentreSpreadPA, ScalePA: p.ScalePA, ScaleSpreadPA: p.ScaleSpreadPA,
		OpenPorePA: p.OpenPorePA, OpenPoreSpreadPA: p.OpenPoreSpreadPA, Correlation: p.Correlation,
		SpeedSpread: p.SpeedSpread, NoiseSpread: p.NoiseSpread, Drift: p.Drift, DriftSeconds: p.DriftSeconds, Still: p.Still, StillLevel: p.StillLevel,
		kmers: make([]kmer, len(m.kmers)), profile: p.Name, scaleWithCentre: p.ScaleWithCentre,
		visits: &visits{dwell: p.Dwell, residual: p.Residual, noise: p.Noise},
	}
	if len(p.Change) > 0 {
		out.visits.words = &words{change: p.Change, lasts: p.Lasts, when: p.When, dwell: p.DwellWords, noise: p.NoiseWords, rise: p.RiseWords}
	}
	if published {
		out.visits.residual = p.ResidualPublished
	}
	dwell := newDrawn(p.Dwell, 1).mean()
	for i := range m.kmers {
		factor := math.Exp(sumOf(p.DwellWords, p.K, i))
		out.kmers[i] = kmer{mean: (m.kmers[i].mean - mean) / deviation, dwell: float64(dwell * factor)}
	}
	return out, nil
}

// visits are the quantiles of a profile.
type visits struct {
	dwell, residual, noise []float64
	words                  *words // nil: of format 1
}

// words are what a profile knows of a visit from its bases, and how visits change.
type words struct {
	change, lasts, when []float64
	dwell, noise, rise  []Part
}

// sumOf is what parts make of a k-mer, in whole units.
func sumOf(parts []Part, k, code int) float64 {
	sum := 0
	for _, p := range parts {
		sum += int(p.Adds[p.index(k, code)])
	}
	return float64(sum) / 1000
}

// drawn draws from a distribution that is known by quantiles.
type drawn struct{ values [drawnCells + 1]float64 }

// drawnCells is how finely the share of visits is divided: with 4,096 cells a thousandth
// of the visits is four of them.
const drawnCells = 4096

// newDrawn spreads a profile's quantiles over even shares, times a factor.
func newDrawn(quantiles []float64, factor float64) *drawn {
	d := new(drawn)
	for i, cell := 0, 0; cell <= drawnCells; cell++ {
		share := float64(float64(cell) / drawnCells)
		for i < Quantiles-2 && QuantileAt(i+1) < share {
			i++
		}
		low, high := QuantileAt(i), QuantileAt(i+1)
		part := (share - low) / (high - low)
		d.values[cell] = factor * (quantiles[i] + float64(part*(quantiles[i+1]-quantiles[i])))
	}
	return d
}

// at returns the value below which a share of the visits is, 0 <= share < 1.
func (d *drawn) at(share float64) float64 {
	x := float64(share * drawnCells)
	i := int(x)
	return d.values[i] + float64((x-float64(i))*(d.values[i+1]-d.values[i]))
}

func (d *drawn) mean() float64 {
	sum := -(d.values[0] + d.values[drawnCells]) / 2
	for _, v := range d.values {
		sum += v
	}
	return sum / drawnCells
}

// reshaped makes times more or less irregular: their logarithms are spread by a factor
// about their mean, which stays.
func reshaped(dwell []float64, factor float64) []float64 {
	if factor == 1 {
		return dwell
	}
	mean := newDrawn(dwell, 1).mean()
	out := make([]float64, len(dwell))
	for i, v := range dwell {
		out[i] = math.Pow(v/mean, factor)
	}
	level := newDrawn(out, 1).mean()
	for i := range out {
		out[i] *= mean / level
	}
	return out
}

// Part is what the bases at some places of a k-mer add to its level.
type Part struct {
	// Offset is the first of the bases, from 0, and Width how many there are.
	Offset, Width int
	// Adds is what each combination adds, by its code, in thousandths.
	Adds []int16
}

// index is which combination of the part's bases a k-mer has.
func (p *Part) index(k, code int) int {
	return code >> (2 * (k - p.Offset - p.Width)) & (1<<(2*p.Width) - 1)
}

// Parts is a table of levels as a sum of parts: far smaller than a row for each k-mer, and
// to be measured of reads that don't hold every k-mer.
type Parts struct {
	Source []string
	K      int
	Parts  []Part
}

// ReadParts reads a table of parts: lines of a key and its values, separated by tabs, in
// this order. Lines that begin with # and empty ones are left out.
//
//	porestream-pore-levels  the format's version, 1
//	source                  text; any number of such lines
//	k                       bases of a k-mer
//	part                    offset, width, and what each of the 4^width combinations of
//	                        bases adds to the level, in thousandths; any number of them
func ReadParts(r io.Reader) (*Parts, error) {
	t := new(Parts)
	in := newRecords(r, levelsMagic, formatPlain)
	for in.peek() == "source" {
		t.Source = append(t.Source, in.next("source", 1)[0])
	}
	in.whole("k", &t.K, minK, maxK)
	t.Parts = in.parts("part", t.K)
	if err := in.done(); err != nil {
		return nil, fmt.Errorf("reading levels of parts of k-mers: %w", err)
	}
	if len(t.Parts) == 0 {
		return nil, errors.New("reading levels of parts of k-mers: no part")
	}
	return t, nil
}

// AppendText writes a table as [ReadParts] reads it.
func (t *Parts) AppendText(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s\t1\n", levelsMagic)
	for _, s := range t.Source {
		dst = fmt.Appendf(dst, "source\t%s\n", s)
	}
	return appendParts(fmt.Appendf(dst, "k\t%d\n", t.K), "part", t.Parts)
}

// appendParts writes a line of each part.
func appendParts(dst []byte, key string, parts []Part) []byte {
	for _, p := range parts {
		dst = fmt.Appendf(dst, "%s\t%d\t%d", key, p.Offset, p.Width)
		for _, v := range p.Adds {
			dst = append(dst, '\t')
			dst = strconv.AppendInt(dst, int64(v), 10)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// Model makes a model of the sums, with levels alone.
func (t *Parts) Model() *Model {
	m := defaults(t.K)
	m.standard = true
	m.kmers = make([]kmer, 1<<(2*t.K))
	for code := range m.kmers {
		m.kmers[code] = kmer{mean: sumOf(t.Parts, t.K, code)}
	}
	return m
}

// records reads lines of a key and its values. The first error stays.
type records struct {
	lines  *bufio.Scanner
	n      int
	key    string // of the line that is next; empty at the end
	cells  []string
	format string
	err    error
}

func newRecords(r io.Reader, magic string, formats ...string) *records {
	in := &records{lines: bufio.NewScanner(r)}
	in.lines.Buffer(nil, maxProfileBytes)
	in.advance()
	in.format = in.next(magic, 1)[0]
	if in.err == nil && !slices.Contains(formats, in.format) {
		in.fail(fmt.Errorf("%s is %q: this program reads format %s", magic, clip(in.format), strings.Join(formats, ", ")))
	}
	return in
}

func (in *records) fail(err error) {
	if in.err == nil {
		in.err = fmt.Errorf("line %d: %w", in.n, err)
	}
}

// advance goes to the next line.
func (in *records) advance() {
	in.key, in.cells = "", nil
	for in.lines.Scan() {
		in.n++
		line := strings.TrimRight(in.lines.Text(), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "\t")
		in.key, in.cells = cells[0], cells[1:]
		return
	}
	if err := in.lines.Err(); err != nil {
		in.n++
		in.fail(err)
	}
}

// peek is the key of the next line; empty at the end and after an error.
func (in *records) peek() string {
	if in.err != nil {
		return ""
	}
	return in.key
}

// next returns the values of a line, which must be there; n of them, or any number if n
// is negative.
func (in *records) next(key string, n int) []string {
	if in.err != nil {
		return make([]string, max(n, 0))
	}
	switch {
	case in.key != key && in.key == "":
		in.n++
		in.fail(fmt.Errorf("the file ends, want %s", key))
	case in.key != key:
		in.fail(fmt.Errorf("%q, want %s", clip(in.key), key))
	case n >= 0 && len(in.cells) != n:
		in.fail(fmt.Errorf("%s has %d values, want %d", key, len(in.cells), n))
	}
	if in.err != nil {
		return make([]string, max(n, 0))
	}
	values := in.cells
	defer in.advance()
	return values
}

func (in *records) whole(key string, to *int, least, most int) {
	line := in.n
	values := in.next(key, 1)
	if in.err != nil {
		return
	}
	v, err := strconv.Atoi(values[0])
	if err != nil || v < least || v > most {
		in.err = fmt.Errorf("line %d: %s is %q, want a number from %d to %d", line, key, clip(values[0]), least, most)
		return
	}
	*to = v
}

func (in *records) numbers(f field) {
	line := in.n
	values := in.next(f.key, len(f.to))
	if in.err != nil {
		return
	}
	for i, text := range values {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= f.least && v <= f.most) {
			in.err = fmt.Errorf("line %d: %s: value %d is %q, want a number from %g to %g", line, f.key, i+1, clip(text), f.least, f.most)
			return
		}
		*f.to[i] = v
	}
}

// parts reads any number of lines of parts.
func (in *records) parts(key string, k int) (out []Part) {
	for in.peek() == key {
		if len(out) == maxParts {
			in.fail(fmt.Errorf("more than %d parts", maxParts))
			break
		}
		out = append(out, in.part(key, k))
	}
	return out
}

func (in *records) part(key string, k int) (p Part) {
	line := in.n
	values := in.next(key, -1)
	if in.err != nil {
		return p
	}
	bad := func(format string, args ...any) Part {
		in.err = fmt.Errorf("line %d: %s: "+format, append([]any{line, key}, args...)...)
		return Part{}
	}
	if len(values) < 2 {
		return bad("no offset and width")
	}
	var err1, err2 error
	p.Offset, err1 = strconv.Atoi(values[0])
	p.Width, err2 = strconv.Atoi(values[1])
	if err1 != nil || err2 != nil || p.Offset < 0 || p.Width < 1 || p.Offset >= k || p.Width > k-p.Offset {
		return bad("offset %q and width %q: want bases within the %d of a k-mer", clip(values[0]), clip(values[1]), k)
	}
	values = values[2:]
	if len(values) != 1<<(2*p.Width) {
		return bad("%d values, want %d", len(values), 1<<(2*p.Width))
	}
	for i, text := range values {
		v, err := strconv.ParseInt(text, 10, 16)
		if err != nil {
			return bad("value %d is %q, want thousandths from -32768 to 32767", i+1, clip(text))
		}
		p.Adds = append(p.Adds, int16(v))
	}
	return p
}

// done says what is wrong, or that there is more than there should be.
func (in *records) done() error {
	if in.err == nil && in.key != "" {
		in.fail(fmt.Errorf("%q is too much", clip(in.key)))
	}
	return in.err
}
