package squiggle

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/textfile"
)

// Model says what current a pore shows of k-mers. Levels are in units of the reads'
// own spread: (current − median)/(1.4826 MAD), as in a typical read.
type Model struct {
	Chemistry  string // as signal.Run.Chemistry has it: "r9.4", "r10.4.1"
	K          int    // bases of a k-mer
	Centre     int    // index of the base within the k-mer that its time belongs to
	SampleRate int    // Hz

	// CentrePA and ScalePA are the median of a typical read and 1.4826 times its MAD,
	// OpenPorePA is the level of an open pore, in picoamperes; the others are their
	// standard deviations between reads.
	CentrePA, CentreSpreadPA float64
	ScalePA, ScaleSpreadPA   float64
	OpenPorePA               float64
	OpenPoreSpreadPA         float64

	// Correlation is the autocorrelation of noise at 1, 2 and 3 samples.
	Correlation [3]float64
	// Dwell is the distribution of the time that a k-mer takes.
	Dwell Distribution
	// SpeedSpread is the standard deviation of the logarithm of reads' speeds,
	// NoiseSpread that of their noise.
	SpeedSpread, NoiseSpread float64
	// Drift is the standard deviation of slow wandering, in units of levels, and
	// DriftSeconds the time in which it is forgotten.
	Drift, DriftSeconds float64
	// Still is the mean time in seconds for which the motor holds a strand's leader
	// before it goes on, and StillLevel where the current is then.
	Still, StillLevel float64

	kmers []kmer // by code: A, C, G and T are 0 to 3, the first base the highest

	// What models without a profile don't have. profile is its name, scaleWithCentre the
	// correlation between reads of scale and centre.
	profile         string
	scaleWithCentre float64
	visits          *visits
	standard        bool // the table has levels alone
}

// kmer is a row of a model.
type kmer struct {
	mean   float64
	spread float64 // of the level between visits
	noise  float64 // within a visit
	dwell  float64 // samples
	cv     float64 // standard deviation of the dwell over its mean
}

// Distribution is a family of distributions of positive numbers.
type Distribution uint8

// The families that a k-mer's time may be of.
const (
	LogNormal Distribution = iota
	Gamma
	InverseGaussian
)

var distributionNames = [...]string{LogNormal: "lognormal", Gamma: "gamma", InverseGaussian: "inverse_gaussian"}

func (d Distribution) String() string { return distributionNames[d] }

// parseDistribution reads a family's name, however its words are joined.
func parseDistribution(name string) (Distribution, error) {
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
	for i, n := range distributionNames {
		if plain == strings.ReplaceAll(n, "_", "") {
			return Distribution(i), nil
		}
	}
	return 0, fmt.Errorf("%q is none of %s", clip(name), strings.Join(distributionNames[:], ", "))
}

// Bounds of what a table may say.
const (
	minK, maxK   = 3, 10
	maxLineBytes = 64 << 10
	maxLevel     = 1e4
)

// Profile is the name of the profile that the model has times, scatter and noise of;
// empty for none.
func (m *Model) Profile() string { return m.profile }

// LevelsOnly reports whether the model's table said nothing but levels, so that all else
// is a default or that of a profile.
func (m *Model) LevelsOnly() bool { return m.standard }

// Levels returns the mean level of each k-mer by its code: A, C, G and T are 0 to 3, and
// the first base counts most.
func (m *Model) Levels() []float32 {
	out := make([]float32, len(m.kmers))
	for i := range m.kmers {
		out[i] = float32(m.kmers[i].mean)
	}
	return out
}

// BasesPerSecond is the speed of a typical read on bases that come equally often.
func (m *Model) BasesPerSecond() float64 {
	total := 0.0
	for i := range m.kmers {
		total += m.kmers[i].dwell
	}
	return float64(m.SampleRate) * float64(len(m.kmers)) / total
}

// Level returns the mean level and dwell (samples) of a k-mer of A, C, G and T.
func (m *Model) Level(bases string) (level, dwell float64, ok bool) {
	code, ok := codeOf(bases)
	if !ok || len(bases) != m.K {
		return 0, 0, false
	}
	return m.kmers[code].mean, m.kmers[code].dwell, true
}

// Digest names a model by its content.
func (m *Model) Digest() string {
	h := sha256.New()
	// Runs are named by this text, so what models had before there were profiles is
	// written as it was.
	fmt.Fprintf(h, "%+v", struct {
		Chemistry                string
		K, Centre, SampleRate    int
		CentrePA, CentreSpreadPA float64
		ScalePA, ScaleSpreadPA   float64
		OpenPorePA               float64
		OpenPoreSpreadPA         float64
		Correlation              [3]float64
		Dwell                    Distribution
		SpeedSpread, NoiseSpread float64
		Drift, DriftSeconds      float64
		Still, StillLevel        float64
		kmers                    []kmer
	}{
		m.Chemistry, m.K, m.Centre, m.SampleRate, m.CentrePA, m.CentreSpreadPA, m.ScalePA, m.ScaleSpreadPA, m.OpenPorePA, m.OpenPoreSpreadPA,
		m.Correlation, m.Dwell, m.SpeedSpread, m.NoiseSpread, m.Drift, m.DriftSeconds, m.Still, m.StillLevel, nil,
	})
	for _, k := range m.kmers {
		fmt.Fprintf(h, "\n%v", k)
	}
	if m.visits != nil {
		v := m.visits
		fmt.Fprintf(h, "\n%s %v {%v %v %v}", m.profile, m.scaleWithCentre, v.dwell, v.residual, v.noise)
		if v.words != nil {
			fmt.Fprintf(h, " %v", *v.words)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// codeOf returns the number of a k-mer.
func codeOf(bases string) (code int, ok bool) {
	for i := range len(bases) {
		at := strings.IndexByte("ACGT", bases[i])
		if at < 0 {
			return 0, false
		}
		code = code<<2 | at
	}
	return code, true
}

// ReadModel reads a table of k-mers, of any of four forms:
//
//   - ours: comments "# key: value", then a row of the columns' names, kmer, mean,
//     spread, noise, dwell_mean, dwell_sd and any others, then a row for each k-mer,
//     all separated by tabs. Levels are in units of reads, dwells in samples. The key
//     porestream-pore-model, the format's version, is 1. Those that count besides are
//     chemistry, k, centre, sample_rate; norm_center_pa, norm_scale_pa and open_pore_pa,
//     each with its standard deviation between reads (_sd); noise_autocorrelation (from
//     lag 1, three numbers at least); dwell_family; speed_mean and speed_sd (bases/s);
//     drift_sd, and drift_correlation at drift_samples; read_noise_sd (of the
//     logarithm), still_seconds and still_level. What is not given has a default by k;
//   - the models of nanopolish: comments "#key<TAB>value", then columns kmer,
//     level_mean, level_stdv, sd_mean and others, in picoamperes;
//   - ONT's kmer_models: k-mer and level, of mean 0 and standard deviation 1, without
//     a heading or with one;
//   - Uncalled4's archives of NumPy arrays (.npz), of which kmer and current.mean count:
//     levels as those of ONT.
//
// Of all but the first form, what they don't say is that of R9.4 at 4 kHz and 450
// bases/s for k-mers of up to 6 bases, and that of R10.4.1 at 5 kHz and 400 bases/s
// for longer ones. Each k-mer must have its row, once.
func ReadModel(r io.Reader) (*Model, error) {
	p := parser{keys: make(map[string]string)}
	in := bufio.NewReader(r)
	if head, err := in.Peek(len(zipMagic)); err == nil && string(head) == zipMagic {
		return readNPZ(in)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	n := 0
	for lines.Scan() {
		n++
		if err := p.line(strings.TrimRight(lines.Text(), "\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes: not a table of k-mers", n+1, maxLineBytes)
	case err != nil:
		return nil, err
	}
	return p.model()
}

// parser reads a table line by line.
type parser struct {
	keys    map[string]string
	columns map[string]int // by name
	form    form
	k       int
	rows    []kmer
	seen    []bool
	filled  int
}

// form is what a table's columns are.
type form uint8

const (
	unknownForm form = iota
	ownForm
	currentForm  // nanopolish
	standardForm // ONT's kmer_models
)

func (p *parser) line(text string) error {
	if comment, ok := strings.CutPrefix(text, "#"); ok {
		for _, separator := range []string{"\t", ":"} {
			if key, value, ok := strings.Cut(comment, separator); ok {
				p.keys[strings.TrimSpace(key)] = strings.TrimSpace(value)
				return nil
			}
		}
		return nil
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	fields := strings.Split(text, "\t")
	if p.form == unknownForm {
		switch fields[0] {
		case profileMagic:
			return errors.New("a profile of a pore and not a table of k-mers: those that ship are chosen by their chemistry, and others aren't taken")
		case levelsMagic:
			return errors.New("levels of parts of k-mers and not a table of k-mers: those that ship are chosen by their chemistry, and others aren't taken")
		}
		if named, err := p.heading(fields); named || err != nil {
			return err
		}
	}
	return p.row(fields)
}

// heading finds out what the columns are, and whether the line is one that says so.
func (p *parser) heading(fields []string) (named bool, err error) {
	p.columns = make(map[string]int)
	for i, name := range fields {
		if _, ok := p.columns[name]; ok {
			return true, fmt.Errorf("two columns are called %q", clip(name))
		}
		p.columns[name] = i
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { _, ok := p.columns[n]; return !ok })
	}
	switch {
	case has("kmer", "mean", "spread", "noise", "dwell_mean", "dwell_sd"):
		p.form = ownForm
		return true, nil
	case has("kmer", "level_mean", "level_stdv", "sd_mean"):
		p.form = currentForm
		return true, nil
	case len(fields) == 2 && (has("kmer", "level_mean") || has("kmer", "level")):
		p.form, p.columns = standardForm, map[string]int{"kmer": 0, "mean": 1}
		return true, nil
	case len(fields) == 2:
		p.form, p.columns = standardForm, map[string]int{"kmer": 0, "mean": 1}
		return false, nil
	}
	return true, errors.New("not a table of k-mers: neither a heading with kmer, mean, spread, noise, dwell_mean and dwell_sd, " +
		"nor one with kmer, level_mean, level_stdv and sd_mean, nor rows of a k-mer and its level, separated by tabs")
}

func (p *parser) row(fields []string) error {
	cell := func(name string) string {
		if i := p.columns[name]; i < len(fields) {
			return fields[i]
		}
		return ""
	}
	bases := strings.ToUpper(cell("kmer"))
	code, ok := codeOf(bases)
	switch {
	case !ok || len(bases) < minK || len(bases) > maxK:
		return fmt.Errorf("%q is no k-mer of %d to %d bases A, C, G and T", clip(bases), minK, maxK)
	case p.k == 0:
		p.k = len(bases)
		p.rows, p.seen = make([]kmer, 1<<(2*p.k)), make([]bool, 1<<(2*p.k))
	case len(bases) != p.k:
		return fmt.Errorf("k-mer %s among those of %d bases", bases, p.k)
	}
	if p.seen[code] {
		return fmt.Errorf("a second row for k-mer %s", bases)
	}
	p.seen[code] = true
	p.filled++
	row := &p.rows[code]
	number := func(to *float64, column string, least, most float64) error {
		v, err := strconv.ParseFloat(cell(column), 64)
		if err != nil || !(v >= least && v <= most) {
			return fmt.Errorf("k-mer %s: %s is %q, want a number from %g to %g", bases, column, clip(cell(column)), least, most)
		}
		*to = v
		return nil
	}
	switch p.form {
	case ownForm:
		var sd float64
		err := errors.Join(number(&row.mean, "mean", -maxLevel, maxLevel), number(&row.spread, "spread", 0, maxLevel), number(&row.noise, "noise", 0, maxLevel),
			number(&row.dwell, "dwell_mean", 0.1, 1e6), number(&sd, "dwell_sd", 0, 1e6))
		if err != nil {
			return firstLine(err)
		}
		row.cv = sd / row.dwell
	case currentForm:
		return firstLine(errors.Join(number(&row.mean, "level_mean", -maxLevel, maxLevel), number(&row.spread, "level_stdv", 0, maxLevel),
			number(&row.noise, "sd_mean", 0, maxLevel)))
	default:
		return number(&row.mean, "mean", -maxLevel, maxLevel)
	}
	return nil
}

// firstLine is the first of joined errors.
func firstLine(err error) error {
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// model checks that the table is whole and fills in what it doesn't say.
func (p *parser) model() (*Model, error) {
	switch {
	case p.k == 0:
		return nil, errors.New("it has no k-mer")
	case p.filled < len(p.rows):
		missing := slices.Index(p.seen, false)
		return nil, fmt.Errorf("%d of %d k-mers, %s is missing", p.filled, len(p.rows), spell(missing, p.k))
	}
	m := defaults(p.k)
	m.kmers = p.rows
	switch p.form {
	case ownForm:
		if err := p.apply(m); err != nil {
			return nil, err
		}
		return m, nil
	case currentForm:
		// Typical reads lie on the table: its levels are their current.
		levels := make([]float64, len(m.kmers))
		for i := range m.kmers {
			levels[i] = m.kmers[i].mean
		}
		m.CentrePA, m.ScalePA = medianMAD(levels)
		for i := range m.kmers {
			r := &m.kmers[i]
			r.mean, r.spread, r.noise = (r.mean-m.CentrePA)/m.ScalePA, publishedSpread*r.spread/m.ScalePA, r.noise/m.ScalePA
		}
	case standardForm:
		levels := make([]float64, len(m.kmers))
		for i := range m.kmers {
			levels[i] = m.kmers[i].mean
		}
		centre, scale := medianMAD(levels)
		m.standard = true
		for i := range m.kmers {
			r := &m.kmers[i]
			r.mean, r.spread, r.noise = (r.mean-centre)/scale, defaultSpread, defaultNoise
		}
	}
	dwell, cv := float64(m.SampleRate)/speedOf(p.k), defaultDwellCV
	for i := range m.kmers {
		m.kmers[i].dwell, m.kmers[i].cv = dwell, cv
	}
	if !(m.ScalePA > 0) {
		return nil, errors.New("all levels are the same")
	}
	return m, nil
}

// What tables of levels alone don't say.
const (
	// publishedSpread is the part of the spread in nanopolish's models that is between
	// visits of one read: they have all reads' in it.
	publishedSpread = 0.5

	defaultSpread  = 0.08
	defaultNoise   = 0.10
	defaultDwellCV = 0.7
)

func speedOf(k int) float64 {
	if k <= 6 {
		return 450
	}
	return 400
}

// defaults are those of R9.4 for short k-mers, and of R10.4.1 for long ones: figures of
// reads of both.
func defaults(k int) *Model {
	m := &Model{
		Chemistry: "r9.4", K: k, Centre: 2, SampleRate: 4000,
		CentrePA: 85, CentreSpreadPA: 5, ScalePA: 14, ScaleSpreadPA: 1.1, OpenPorePA: 220, OpenPoreSpreadPA: 7,
		Correlation: [3]float64{0.12, 0.06, 0.03}, Dwell: LogNormal, SpeedSpread: 0.08, NoiseSpread: 0.3,
		Drift: 0.07, DriftSeconds: 3, Still: 0.05, StillLevel: 0.1,
	}
	if k > 6 {
		m.Chemistry, m.Centre, m.SampleRate = "r10.4.1", 5, 5000
		m.CentrePA, m.CentreSpreadPA, m.ScalePA, m.ScaleSpreadPA, m.OpenPorePA, m.OpenPoreSpreadPA = 100, 7, 27, 2.5, 205, 10
	}
	m.Centre = min(m.Centre, k-1)
	return m
}

// formatKey is the key of the version of our form.
const formatKey = "porestream-pore-model"

// apply takes over what our own tables say of the whole.
func (p *parser) apply(m *Model) error {
	if v := p.keys[formatKey]; v != "1" {
		return fmt.Errorf("%s is %q: this program reads format 1", formatKey, clip(v))
	}
	if v, ok := p.keys["chemistry"]; ok {
		m.Chemistry = strings.ToLower(v)
	}
	if v, ok := p.keys["dwell_family"]; ok {
		d, err := parseDistribution(v)
		if err != nil {
			return fmt.Errorf("dwell_family: %w", err)
		}
		m.Dwell = d
	}
	if v, ok := p.keys["noise_autocorrelation"]; ok {
		parts := strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		if len(parts) < len(m.Correlation) {
			return fmt.Errorf("noise_autocorrelation is %q, want %d numbers at least", clip(v), len(m.Correlation))
		}
		for i := range m.Correlation {
			c, err := strconv.ParseFloat(parts[i], 64)
			if err != nil || !(c > -1 && c < 1) {
				return fmt.Errorf("noise_autocorrelation is %q, want numbers between -1 and 1", clip(v))
			}
			m.Correlation[i] = c
		}
	}
	whole := func(key string, to *int, least, most int) error {
		v, ok := p.keys[key]
		if !ok {
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%s is %q, want a number from %d to %d", key, clip(v), least, most)
		}
		*to = n
		return nil
	}
	k := m.K
	if err := errors.Join(whole("k", &k, minK, maxK), whole("centre", &m.Centre, 0, m.K-1), whole("sample_rate", &m.SampleRate, 100, 60_000)); err != nil {
		return firstLine(err)
	}
	if k != m.K {
		return fmt.Errorf("k is %d, and its k-mers have %d bases", k, m.K)
	}
	var speed, speedSpread, driftCorrelation, driftSamples float64
	for _, f := range []struct {
		key         string
		to          *float64
		least, most float64
	}{
		{"norm_center_pa", &m.CentrePA, 1, 1000}, {"norm_scale_pa", &m.ScalePA, 0.1, 1000},
		{"norm_center_pa_sd", &m.CentreSpreadPA, 0, 100}, {"norm_scale_pa_sd", &m.ScaleSpreadPA, 0, 100},
		{"open_pore_pa", &m.OpenPorePA, 1, 2000}, {"open_pore_pa_sd", &m.OpenPoreSpreadPA, 0, 200},
		{"speed_mean", &speed, 1, 10_000}, {"speed_sd", &speedSpread, 0, 10_000}, {"read_noise_sd", &m.NoiseSpread, 0, 1},
		{"drift_sd", &m.Drift, 0, 10}, {"drift_correlation", &driftCorrelation, 0.001, 0.999}, {"drift_samples", &driftSamples, 1, 1e9},
		{"still_seconds", &m.Still, 0, 60}, {"still_level", &m.StillLevel, -10, 10},
	} {
		text, ok := p.keys[f.key]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= f.least && v <= f.most) {
			return fmt.Errorf("%s is %q, want a number from %g to %g", f.key, clip(text), f.least, f.most)
		}
		*f.to = v
	}
	if speed > 0 {
		// Of the logarithm; the table's own times have the mean.
		m.SpeedSpread = min(speedSpread/speed, 1)
	}
	if driftCorrelation > 0 && driftSamples > 0 {
		m.DriftSeconds = -driftSamples / math.Log(driftCorrelation) / float64(m.SampleRate)
	}
	return nil
}

// medianMAD returns the median, and 1.4826 times the median distance from it.
func medianMAD(values []float64) (median, mad float64) {
	sorted := slices.Sorted(slices.Values(values))
	median = sorted[len(sorted)/2]
	for i, v := range sorted {
		sorted[i] = math.Abs(v - median)
	}
	slices.Sort(sorted)
	return median, 1.4826 * sorted[len(sorted)/2]
}

// spell writes the bases of a k-mer's number.
func spell(code, k int) string {
	b := make([]byte, k)
	for i := range b {
		b[k-1-i] = "ACGT"[code&3]
		code >>= 2
	}
	return string(b)
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 40) }
