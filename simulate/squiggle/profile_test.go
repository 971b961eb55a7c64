package squiggle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// toyProfile is of 3-mers: dwells of 2 to 20 samples, residuals of -0.3 to 0.3, noise of
// 0.05 to 0.15, each evenly.
func toyProfile() *Profile {
	p := &Profile{
		Name: "toy-1khz", Chemistry: "r10.4.1", Source: []string{"made up", "by a test"}, K: 3, Centre: 1, SampleRate: 1000,
		CentrePA: 95, ScalePA: 21, OpenPorePA: 205, Correlation: [3]float64{0.5, 0.25, 0.125}, DriftSeconds: 1,
	}
	for i := range Quantiles {
		share := QuantileAt(i)
		p.Dwell = append(p.Dwell, 2+18*share)
		p.Residual = append(p.Residual, 0.6*share-0.3)
		p.ResidualPublished = append(p.ResidualPublished, 1.2*share-0.6)
		p.Noise = append(p.Noise, 0.05+0.1*share)
	}
	return p
}

// toyWords is the toy profile with words and changes: what begins with T takes half as long
// again, what has G in its middle scatters half as much, and levels change by up to 0.4.
func toyWords() *Profile {
	p := toyProfile()
	for i := range Quantiles {
		p.Change = append(p.Change, 0.4*QuantileAt(i))
	}
	p.DwellWords = []Part{{Offset: 0, Width: 1, Adds: []int16{0, 0, 0, 405}}}
	p.NoiseWords = []Part{{Offset: 1, Width: 1, Adds: []int16{0, 0, -693, 0}}}
	return p
}

// toyTurns is the toy profile with words and with changes that last for a tenth to three tenths
// of a visit, in the second half of the visit's rest: up where C is in the middle, mostly down elsewhere.
func toyTurns() *Profile {
	p := toyWords()
	for i := range Quantiles {
		p.Lasts = append(p.Lasts, 0.1+0.2*QuantileAt(i))
		p.When = append(p.When, 0.5+0.5*QuantileAt(i))
	}
	p.RiseWords = []Part{{Offset: 1, Width: 1, Adds: []int16{-1099, 9000, -1099, -1099}}}
	return p
}

// toyLevels are levels of 3-mers by each base and each pair.
func toyLevels() *Parts {
	t := &Parts{Source: []string{"made up"}, K: 3}
	for _, p := range []Part{{Offset: 0, Width: 1}, {Offset: 2, Width: 1}, {Offset: 0, Width: 2}} {
		for i := range 1 << (2 * p.Width) {
			p.Adds = append(p.Adds, int16(100*i*(p.Offset+1)-50))
		}
		t.Parts = append(t.Parts, p)
	}
	return t
}

func profiled(t testing.TB, tuning Tuning) *Pore {
	t.Helper()
	return profiledBy(t, toyProfile(), tuning)
}

// profiledBy is a pore of the toy levels with a profile.
func profiledBy(t testing.TB, profile *Profile, tuning Tuning) *Pore {
	t.Helper()
	m, err := profile.Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	p, err := NewPore(m, tuning)
	require.NoError(t, err)
	return p
}

// A profile and levels that are written are what is read.
func TestProfileAndLevelsRoundTrip(t *testing.T) {
	text := toyProfile().AppendText(nil)
	p, err := ReadProfile(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, string(text), string(p.AppendText(nil)))
	require.Equal(t, []string{"made up", "by a test"}, p.Source)
	require.InDelta(t, 11, p.Dwell[Quantiles/2], 1e-9)

	text = toyWords().AppendText(nil)
	p, err = ReadProfile(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, string(text), string(p.AppendText(nil)))
	require.Equal(t, toyWords().NoiseWords, p.NoiseWords)
	require.Contains(t, string(text), "porestream-pore-profile\t2\n")
	require.True(t, strings.HasSuffix(string(text), "dwell_word\t0\t1\t0\t0\t0\t405\nnoise_word\t1\t1\t0\t0\t-693\t0\n"))

	text = toyTurns().AppendText(nil)
	p, err = ReadProfile(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, string(text), string(p.AppendText(nil)))
	require.Equal(t, toyTurns().RiseWords, p.RiseWords)
	require.Contains(t, string(text), "porestream-pore-profile\t3\n")
	require.Contains(t, string(text), "\nlasts\t0.1\t")
	require.Contains(t, string(text), "\nwhen\t0.5\t")
	require.True(t, strings.HasSuffix(string(text), "\nrise_word\t1\t1\t-1099\t9000\t-1099\t-1099\n"))

	text = toyLevels().AppendText(nil)
	l, err := ReadParts(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, toyLevels(), l)
	m := l.Model()
	require.True(t, m.LevelsOnly())
	// CAG: C at 0 adds 0.05, G at 2 adds 0.55, CA at 0 adds 0.35.
	level, _, ok := m.Level("CAG")
	require.True(t, ok)
	require.InDelta(t, 0.05+0.55+0.35, level, 1e-9)
}

func TestReadProfileRefuses(t *testing.T) {
	good, worded, turning := string(toyProfile().AppendText(nil)), string(toyWords().AppendText(nil)), string(toyTurns().AppendText(nil))
	for name, c := range map[string]struct{ text, want string }{
		"nothing":        {"", "line 1: the file ends, want porestream-pore-profile"},
		"another file":   {"kmer\tmean\n", `line 1: "kmer", want porestream-pore-profile`},
		"another format": {strings.Replace(good, "profile\t1", "profile\t4", 1), `porestream-pore-profile is "4": this program reads format 1, 2, 3`},
		"no name":        {strings.Replace(good, "name\ttoy-1khz\n", "", 1), `"chemistry", want name`},
		"a bad rate":     {strings.Replace(good, "sample_rate\t1000", "sample_rate\tfast", 1), `line 8: sample_rate is "fast", want a number from 100`},
		"no scale":       {strings.Replace(good, "scale_pa\t21", "scale_pa\t0", 1), "scale_pa is 0"},
		"NaN":            {strings.Replace(good, "drift_seconds\t1", "drift_seconds\tNaN", 1), `drift_seconds: value 1 is "NaN"`},
		"a short table":  {strings.Replace(good, "dwell\t2\t", "dwell\t", 1), "dwell has 128 values, want 129"},
		"falling":        {strings.Replace(good, "dwell\t2\t", "dwell\t7\t", 1), "dwell: quantiles that fall"},
		"a centre":       {strings.Replace(good, "centre\t1", "centre\t3", 1), "centre 3 of k-mers of 3 bases"},
		"too much":       {good + "more\t1\n", `"more" is too much`},
		"cut off":        {good[:len(good)/2], "want"},
		"no change":      {strings.Replace(good, "profile\t1", "profile\t2", 1), "the file ends, want change"},
		"change in 1":    {strings.Replace(worded, "profile\t2", "profile\t1", 1), `"change" is too much`},
		"a change falls": {strings.Replace(worded, "change\t0\t", "change\t1\t", 1), "change: quantiles that fall"},
		"a long word":    {strings.Replace(worded, "dwell_word\t0\t1", "dwell_word\t3\t1", 1), `dwell_word: offset "3" and width "1": want bases within the 3`},
		"a short word":   {strings.Replace(worded, "noise_word\t1\t1", "noise_word\t1\t2", 1), "noise_word: 4 values, want 16"},
		"words' order":   {worded + "dwell_word\t0\t1\t0\t0\t0\t0\n", `"dwell_word" is too much`},
		"no lasts":       {strings.Replace(worded, "profile\t2", "profile\t3", 1), `"dwell_word", want lasts`},
		"lasts in 2":     {strings.Replace(turning, "profile\t3", "profile\t2", 1), `"lasts" is too much`},
		"a late change":  {strings.Replace(turning, "when\t0.5", "when\t1.5", 1), `when: value 1 is "1.5"`},
		"when falls":     {strings.Replace(turning, "when\t0.5", "when\t0.9", 1), "when: quantiles that fall"},
		"a long line":    {good + strings.Repeat("x", maxProfileBytes), "token too long"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadProfile(strings.NewReader(c.text))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "reading a pore profile")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	bad := toyProfile()
	clear(bad.Dwell)
	_, err := ReadProfile(bytes.NewReader(bad.AppendText(nil)))
	require.ErrorContains(t, err, "no base takes time")
}

func TestReadPartsRefuses(t *testing.T) {
	const head = "porestream-pore-levels\t1\nk\t3\n"
	for text, want := range map[string]string{
		"":                                    "the file ends, want porestream-pore-levels",
		head:                                  "no part",
		head + "part\t1\n":                    "line 3: part: no offset and width",
		head + "part\t2\t2" + zeros(16):       `offset "2" and width "2": want bases within the 3`,
		head + "part\t0\t9" + zeros(4):        "want bases within the 3",
		head + "part\t-1\t1" + zeros(4):       "want bases within the 3",
		head + "part\t0\t1" + zeros(3):        "3 values, want 4",
		head + "part\t0\t1\t0\t0\t0\t40000\n": `value 4 is "40000", want thousandths`,
		head + strings.Repeat("part\t0\t1"+zeros(4), 65):  "more than 64 parts",
		"porestream-pore-levels\t1\nk\t99\n":              `k is "99", want a number from 3 to 10`,
		"porestream-pore-levels\t1\nsource\ta\tb\nk\t3\n": "line 2: source has 2 values, want 1",
	} {
		_, err := ReadParts(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func zeros(n int) string { return strings.Repeat("\t0", n) + "\n" }

// Levels under a profile have mean 0 and standard deviation 1, and what differs changes
// the digest.
func TestApply(t *testing.T) {
	p := toyProfile()
	m, err := p.Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	require.Equal(t, "toy-1khz", m.Profile())
	sum, square := 0.0, 0.0
	for _, l := range m.Levels() {
		sum += float64(l)
		square += float64(l) * float64(l)
	}
	require.InDelta(t, 0, sum, 1e-4)
	require.InDelta(t, 64, square, 1e-4)
	require.InDelta(t, 1000/11., m.BasesPerSecond(), 0.1)
	published, err := p.Apply(toyLevels().Model(), true)
	require.NoError(t, err)
	require.NotEqual(t, m.Digest(), published.Digest())
	_, err = p.Apply(defaultsOf(t, 4), false)
	require.ErrorContains(t, err, "for k-mers of 3 bases, and the table's have 4")
	_, err = p.Apply(&Model{K: 3, kmers: make([]kmer, 64)}, false)
	require.ErrorContains(t, err, "all levels are the same")
}

func defaultsOf(t *testing.T, k int) *Model {
	t.Helper()
	return (&Parts{K: k, Parts: []Part{{Width: 1, Adds: []int16{1, 2, 3, 4}}}}).Model()
}

// Times, levels and noise of visits are those of the quantiles: all evenly distributed, by
// the factors of the tuning.
func TestVisitsFollowTheProfile(t *testing.T) {
	tuning := Typical()
	tuning.Stalls, tuning.Noise = 0, 0
	p := profiled(t, tuning)
	m := p.NewMaker()
	s := randomStrand(40_000, 3)
	out, read := m.Append(nil, s, Converter{Scale: 0.005, Min: math.MinInt16, Max: math.MaxInt16, Offset: 20_000}, math.MaxInt)
	require.Len(t, out, read.Samples)
	var dwells, off []float64
	last := float64(read.before + read.leader)
	for i, end := range m.Ends() {
		dwells = append(dwells, end-last)
		if at := int(last) + 1; at+1 < int(end) {
			pa := (float64(out[at]) + 20_000) * 0.005
			off = append(off, (pa-95)/21-m.rows[i].mean)
		}
		last = end
	}
	even := func(values []float64, low, high float64) {
		t.Helper()
		slices.Sort(values)
		require.GreaterOrEqual(t, values[0], low-1e-3)
		require.LessOrEqual(t, values[len(values)-1], high+1e-3)
		for i := 1; i < 10; i++ {
			require.InDelta(t, low+(high-low)*float64(i)/10, values[len(values)*i/10], (high-low)*0.02)
		}
	}
	even(dwells, 2, 20)
	even(off, -0.3, 0.3)

	slow := Typical()
	slow.Speed, slow.Spread = 0.5, 2*slow.Spread
	require.InDelta(t, 22, profiled(t, slow).dwell.mean(), 0.01)
	require.InDelta(t, 0.6, profiled(t, slow).residual.at(0.99999), 0.001)
	regular := Typical()
	regular.Dwell = 0
	require.InDelta(t, 11, profiled(t, regular).dwell.at(0.1), 0.01)
	require.InDelta(t, 11, profiled(t, regular).dwell.at(0.9), 0.01)
	wild := Typical()
	wild.Dwell *= 2
	require.InDelta(t, 11, profiled(t, wild).dwell.mean(), 0.05)
	require.Greater(t, profiled(t, wild).dwell.at(0.99), 28.0)
}

// A word's visits take as long and scatter as much as the profile says of it, and a visit's
// level changes once, by the change's quantiles either way, and keeps its mean.
func TestWordsAndChanges(t *testing.T) {
	toy := toyWords()
	toy.Correlation = [3]float64{}
	m, err := toy.Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	_, slow, _ := m.Level("TAC")
	_, usual, _ := m.Level("GAC")
	require.InDelta(t, 1.5, slow/usual, 0.001)
	plain, err := toyProfile().Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	require.NotEqual(t, plain.Digest(), m.Digest())

	const fine, offset = 0.005, 20_000
	current := func(noise float64) ([]int16, *Maker, Read) {
		tuning := Typical()
		tuning.Stalls, tuning.Noise = 0, noise
		p, err := NewPore(m, tuning)
		require.NoError(t, err)
		maker := p.NewMaker()
		out, read := maker.Append(nil, randomStrand(20_000, 3), Converter{Scale: fine, Min: math.MinInt16, Max: math.MaxInt16, Offset: offset}, math.MaxInt)
		return out, maker, read
	}
	out, maker, read := current(1)
	var times, changes [2][]float64
	last := float64(read.before + read.leader)
	for i, end := range maker.Ends() {
		row := maker.rows[i]
		at := 0
		if row.slow > 1 {
			at = 1
		}
		times[at] = append(times[at], end-last)
		begin := last
		last = end
		if end-begin < 12 {
			continue
		}
		// By how much halves differ: as much as the noise and a part of the change.
		half := func(from, to float64) (mean float64) {
			for _, x := range out[int(from)+1 : int(to)] {
				mean += (float64(x) + offset) * fine / 21
			}
			return mean / float64(int(to)-int(from)-1)
		}
		middle := (begin + end) / 2
		at = 0
		if row.loud < 1 {
			at = 1
		}
		changes[at] = append(changes[at], math.Abs(half(begin, middle)-half(middle, end)))
	}
	require.InDelta(t, 1.5, mean(times[1])/mean(times[0]), 0.05)
	require.InDelta(t, 11, mean(times[0]), 0.3)
	require.InDelta(t, 0.5, mean(changes[1])/mean(changes[0]), 0.05)
	// A change of c at a part w of the visit makes halves differ by 2c times the lesser of w
	// and 1 - w: by half of it on average, and the noise adds to that.
	require.InDelta(t, 0.2*0.5, mean(changes[0]), 0.02)
}

// A level that changes is another one for as long as the profile says, when and the way it
// says, and then what it was.
func TestChangesThatPass(t *testing.T) {
	toy := toyTurns()
	toy.Correlation, toy.Noise = [3]float64{}, make([]float64, Quantiles)
	for i := range Quantiles {
		toy.Residual[i], toy.Dwell[i], toy.Change[i] = 0, 24, 0.4
	}
	toy.DwellWords = nil
	toy.NoiseWords[0].Adds[2] = 0
	toy.CentreSpreadPA, toy.ScaleSpreadPA, toy.Drift = 0, 0, 0
	m, err := toy.Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	tuning := Typical()
	tuning.Stalls = 0
	p, err := NewPore(m, tuning)
	require.NoError(t, err)
	maker := p.NewMaker()
	const fine, offset = 0.002, 47_500 // the centre is 0
	out, read := maker.Append(nil, randomStrand(6000, 3), Converter{Scale: fine, Min: math.MinInt16, Max: math.MaxInt16, Offset: offset}, math.MaxInt)
	last := float64(read.before + read.leader)
	var lasted, whens []float64
	up, all := map[bool]float64{}, map[bool]float64{}
	for i, end := range maker.Ends() {
		begin, row := last, maker.rows[i]
		last = end
		samples := out[int(math.Ceil(begin)):int(end)]
		usual := slices.Sorted(slices.Values(samples))[len(samples)/2]
		total, off, moment := 0.0, 0.0, 0.0
		for j, x := range samples {
			by := (float64(x) - float64(usual)) * fine / 21 / 0.4
			total, off, moment = total+by, off+math.Abs(by), moment+math.Abs(by)*(math.Ceil(begin)+float64(j)+0.5)
		}
		lasted = append(lasted, off)
		// Samples at either end have a share of the neighbours', so ends are left out of it.
		whens = append(whens, (moment/off-off/2-begin)/(end-begin-off))
		rises := row.rise > 0.5
		all[rises]++
		if total > 0 {
			up[rises]++
		}
	}
	slices.Sort(lasted)
	slices.Sort(whens)
	require.InDelta(t, 0.2*24, lasted[len(lasted)/2], 0.3)
	require.InDelta(t, 0.12*24, lasted[len(lasted)/10], 0.3)
	require.InDelta(t, 0.28*24, lasted[len(lasted)*9/10], 0.3)
	require.InDelta(t, 0.73, whens[len(whens)/2], 0.06)
	require.Greater(t, whens[len(whens)/50], 0.45)
	require.InDelta(t, 1, up[true]/all[true], 0.001)
	require.InDelta(t, 0.25, up[false]/all[false], 0.02)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Scale and centre of reads go together as the profile says.
func TestScaleFollowsCentre(t *testing.T) {
	p := toyProfile()
	p.CentreSpreadPA, p.ScaleSpreadPA, p.ScaleWithCentre = 8, 1.2, 0.9
	m, err := p.Apply(toyLevels().Model(), false)
	require.NoError(t, err)
	pore, err := NewPore(m, Typical())
	require.NoError(t, err)
	maker := pore.NewMaker()
	var x, y, xx, yy, xy float64
	const n = 4000
	for i := range n {
		r := maker.Time(Strand{Number: uint64(i), Bases: []byte{0, 1, 2}, Stick: 3})
		u, v := (r.CentrePA-95)/8, (r.ScalePA-21)/1.2
		x, y, xx, yy, xy = x+u, y+v, xx+u*u, yy+v*v, xy+u*v
	}
	require.InDelta(t, 0.9, (xy/n-x*y/n/n)/math.Sqrt((xx/n-x*x/n/n)*(yy/n-y*y/n/n)), 0.02)
}

// A published table in NumPy's own archive is read as it is.
func TestReadNPZ(t *testing.T) {
	f, err := os.Open("../../../shared/data/pore-models/dna_r10.4.1_400bps_9mer.npz")
	if err != nil {
		t.Skip("no published table of 9-mers at hand")
	}
	defer f.Close()
	m, err := ReadModel(f)
	require.NoError(t, err)
	require.Equal(t, 9, m.K)
	require.True(t, m.LevelsOnly())
	p := toyProfile()
	p.K = 9
	m, err = p.Apply(m, true)
	require.NoError(t, err)
	// As NumPy reads them.
	for kmer, want := range map[string]float64{"AAAAAAAAA": -1.8449, "AAAAAAAAC": -1.6542, "AAAAAAAGC": -1.3746} {
		level, _, ok := m.Level(kmer)
		require.True(t, ok)
		require.InDelta(t, want, level, 0.004, kmer)
	}
}

// npz makes an archive as NumPy does.
func npz(t testing.TB, arrays map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"kmer", "current.mean"} {
		if data, ok := arrays[name]; ok {
			f, err := w.Create(name + ".npy")
			require.NoError(t, err)
			_, err = f.Write(data)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.String()
}

func npy(descr string, count int, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }\n", descr, count)
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(b, header...), data...)
}

func toyArrays() (names, levels []byte) {
	for i := range 64 {
		for _, c := range spell(i, 3) {
			names = binary.LittleEndian.AppendUint32(names, uint32(c))
		}
		levels = binary.LittleEndian.AppendUint32(levels, math.Float32bits(float32(i)/32-1))
	}
	return names, levels
}

func TestReadNPZRefuses(t *testing.T) {
	names, levels := toyArrays()
	good, values := npy("<U3", 64, names), npy("<f4", 64, levels)
	m, err := ReadModel(strings.NewReader(npz(t, map[string][]byte{"kmer": good, "current.mean": values})))
	require.NoError(t, err)
	require.Equal(t, 3, m.K)
	other := bytes.Clone(names)
	other[0] = 'N'
	for name, c := range map[string]struct {
		kmers, levels []byte
		want          string
	}{
		"no levels":   {good, nil, "no array current.mean"},
		"doubles":     {good, npy("<f8", 32, levels), "current.mean has floats of 8 bytes, want 4"},
		"big-endian":  {good, npy(">f4", 64, levels), "want one dimension of kind f, little-endian"},
		"text":        {good, npy("<U4", 16, levels), "want one dimension of kind f"},
		"too few":     {good, npy("<f4", 63, levels[4:]), "64 names of k-mers and 63 levels"},
		"cut off":     {good, values[:len(values)-1], "bytes for 64 elements of 4"},
		"no header":   {good, values[:9], "not a NumPy array"},
		"half header": {good, values[:30], "the array's header is cut off"},
		"a letter":    {npy("<U3", 64, other), values, `entry 0: "NAA" is no k-mer`},
		"NaN":         {good, npy("<f4", 64, slices.Concat(levels[:252], []byte{0, 0, 0xc0, 0x7f})), "entry 63: k-mer TTT: mean is"},
	} {
		t.Run(name, func(t *testing.T) {
			arrays := map[string][]byte{"kmer": c.kmers}
			if c.levels != nil {
				arrays["current.mean"] = c.levels
			}
			_, err := ReadModel(strings.NewReader(npz(t, arrays)))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err = ReadModel(strings.NewReader(zipMagic + "nothing"))
	require.ErrorContains(t, err, "not an archive of NumPy arrays")
}

func FuzzReadProfile(f *testing.F) {
	f.Add(string(toyProfile().AppendText(nil)))
	f.Add(string(toyWords().AppendText(nil)))
	f.Add(string(toyTurns().AppendText(nil)))
	f.Add(string(toyLevels().AppendText(nil)))
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := ReadParts(strings.NewReader(text)); err == nil {
			again, err := ReadParts(bytes.NewReader(l.AppendText(nil)))
			require.NoError(t, err)
			require.Equal(t, l, again)
		}
		p, err := ReadProfile(strings.NewReader(text))
		if err != nil {
			return
		}
		written := p.AppendText(nil)
		again, err := ReadProfile(bytes.NewReader(written))
		require.NoError(t, err)
		require.Equal(t, string(written), string(again.AppendText(nil)))
		m, err := p.Apply(defaultsOf(t, p.K), false)
		require.NoError(t, err)
		pore, err := NewPore(m, Typical())
		require.NoError(t, err)
		out, read := pore.NewMaker().Append(nil, Strand{Bases: []byte{0, 1, 2, 3}, Stick: 4}, Converter{Scale: 0.1, Min: -4096, Max: 4095}, 1000)
		require.Len(t, out, min(1000, read.Samples))
	})
}

// BenchmarkProfiled is BenchmarkAppend by a profile.
func BenchmarkProfiled(b *testing.B) {
	m := profiled(b, Typical()).NewMaker()
	s := Strand{Bases: make([]byte, 20_000), Stick: 20_000}
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range s.Bases {
		s.Bases[i] = byte(rnd.IntN(4))
	}
	var out []int16
	samples := 0
	before := testenv.ProcessorTime(b)
	for b.Loop() {
		s.Number++
		out, _ = m.Append(out[:0], s, plain, math.MaxInt)
		samples += len(out)
	}
	b.ReportMetric(float64(samples)/(testenv.ProcessorTime(b)-before).Seconds()/1e6, "Msamples/cpu-s")
	b.ReportAllocs()
}
