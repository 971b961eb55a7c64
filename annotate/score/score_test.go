package score_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/genome"
)

const splice = `format = 1
kind = "sequence"
name = "small"
version = "2"
rule = "splice"
info = "Small"
licence = "CC0-1.0"
[input]
name = "x"
layout = "NLC"
channels = "ACGT"
unknown = "zero"
strand = "gene"
context = 6
[output]
name = "y"
layout = "NLC"
channels = ["neither", "acceptor", "donor"]
[splice]
distance = 2
[[networks]]
file = "net.onnx"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
`

const tracks = `format = 1
kind = "sequence"
name = "regulation"
version = "1"
rule = "difference"
info = "Regulation"
licence = "CC0-1.0"
[input]
name = "x"
layout = "NCL"
channels = "ACGT"
unknown = "quarter"
strand = "both"
length = 8
[output]
name = "y"
layout = "NLC"
count = 3
bins = 2
[[tracks]]
name = "dnase"
outputs = "0,2"
[[tracks]]
name = "cage"
outputs = "1"
bins = "1"
combine = "mean"
[[networks]]
file = "net.onnx"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
`

func TestManifest(t *testing.T) {
	for _, tt := range []struct{ name, text, from, to, err string }{
		{"splice", splice, "", "", ""},
		{"tracks", tracks, "", "", ""},
		{"format", splice, "format = 1", "format = 2", "format = 2 is not one that this version reads (1)"},
		{"kind", splice, `"sequence"`, `"variant"`, "it is the manifest of a variant model, not of a sequence model"},
		{"key", splice, "context", "contekst", `line 14: unknown key "input.contekst"`},
		{"rule", splice, `"splice"`, `"slice"`, `rule = "slice" is none of splice, difference and logit-difference`},
		{"name", splice, `"small"`, `"a b"`, `name = "a b" is no word`},
		{"info", splice, `"Small"`, `"a;b"`, `info = "a;b" is no key of INFO`},
		{"licence", splice, `"CC0-1.0"`, `""`, "licence is missing"},
		{"channels", splice, `"ACGT"`, `"ACGU"`, `input.channels = "ACGU" is no order of A, C, G, T`},
		{"odd context", splice, "context = 6", "context = 7", "input.context = 7 is no even number"},
		{"strand", splice, `"gene"`, `"both"`, "the rule splice reads the strand of the gene"},
		{"outputs", splice, `"neither", `, "", `is no order of neither, acceptor, donor`},
		{"distance", splice, "distance = 2", "distance = 5000", "splice.distance = 5000 is not between 1 and 4999"},
		{"file", splice, `"net.onnx"`, `"../net.onnx"`, "is not a file name within the model's folder"},
		{"sum", splice, `"0000`, `"0`, "is not 64 hexadecimal digits"},
		{"no network", splice, splice[strings.Index(splice, "[[networks"):], "", "there are 0 [[networks]]"},
		{"strand of tracks", tracks, `"both"`, `"gene"`, `input.strand = "gene" is neither forward nor both`},
		{"range", tracks, `"0,2"`, `"0-3"`, `tracks[0].outputs: "0-3" goes beyond the last, 2`},
		{"order", tracks, `"0,2"`, `"2,0"`, `tracks[0].outputs: "0" is not behind the one before`},
		{"no number", tracks, `"0,2"`, `"x"`, `"x" is no number or range such as 0-99`},
		{"bins", tracks, `bins = "1"`, `bins = "2"`, `tracks[1].bins: "2" goes beyond the last, 1`},
		{"no bins", tracks, "bins = 2", "bins = 0", "output.count = 3 and output.bins = 0 are not positive"},
		{"combine", tracks, `"mean"`, `"max"`, `tracks[1].combine = "max" is neither sum nor mean`},
		{"twice", tracks, `"cage"`, `"dnase"`, `tracks[1].name = "dnase" comes twice`},
		{"no tracks", tracks, tracks[strings.Index(tracks, "[[tracks"):strings.Index(tracks, "[[networks")], "", "there are 0 [[tracks]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := score.ParseManifest([]byte(strings.Replace(tt.text, tt.from, tt.to, 1)))
			if tt.err == "" {
				require.NoError(t, err)
				assert.Equal(t, 4*m.WindowLength(), product(m.InputShape()))
				assert.Equal(t, m.OutputLength(), product(m.OutputShape()))
				return
			}
			require.ErrorContains(t, err, tt.err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// TestOutputsOfRandomBases: outputs of which there can be no scores are refused before there is an allele. Next to none of random bases is at a splice
// site, so a manifest by which nearly all are has the outputs in another order.
func TestOutputsOfRandomBases(t *testing.T) {
	check := func(text string, out ...float32) error {
		m, err := score.ParseManifest([]byte(text))
		require.NoError(t, err)
		require.Zero(t, m.OutputLength()%len(out))
		return score.NewRule(&m, nil).CheckOutputs(slices.Repeat(out, m.OutputLength()/len(out)))
	}
	require.NoError(t, check(splice, 0.999, 0.0005, 0.0005))
	require.NoError(t, check(splice, 0.3, 0.6, 0.1), "a network made at random")
	require.EqualError(t, check(splice, 0.0005, 0.999, 0.0005),
		`100 % of random bases are at splice sites (acceptor): output.channels = ["neither" "acceptor" "donor"] is not the order of the network's outputs`)
	require.ErrorContains(t, check(splice, 0, 0.05, 0.95), "(donor)")
	require.ErrorContains(t, check(splice, 3, -0.5, -0.5), "an output is -0.5: its outputs are no probabilities")
	logits := strings.Replace(tracks, `"difference"`, `"logit-difference"`, 1)
	require.NoError(t, check(tracks, 7))
	require.ErrorContains(t, check(logits, 7), "track dnase: an output is 7: its outputs are no probabilities")
	require.NoError(t, check(logits, 0, 0.5, 1))
	require.ErrorContains(t, check(tracks, float32(math.Inf(-1))), "track dnase: an output is -Inf: there is no change of what is no finite number")
}

func product(shape []int) int {
	p := 1
	for _, n := range shape {
		p *= n
	}
	return p
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(splice))
	f.Add([]byte(tracks))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := score.ParseManifest(text)
		if err != nil {
			return
		}
		if m.WindowLength() < 1 || m.OutputLength() < 1 {
			t.Fatalf("windows of %d bases, %d outputs", m.WindowLength(), m.OutputLength())
		}
	})
}

func TestFingerprint(t *testing.T) {
	parse := func(text string) string {
		m, err := score.ParseManifest([]byte(text))
		require.NoError(t, err)
		return m.Fingerprint()
	}
	is := parse(splice)
	assert.Equal(t, is, parse(strings.Replace(splice, `"small"`, `"other"`, 1)), "a name changes no score")
	for _, change := range [][2]string{{"distance = 2", "distance = 3"}, {"distance = 2", "mask = true"}, {`"0000`, `"0001`}, {"ACGT", "ACTG"}} {
		assert.NotEqual(t, is, parse(strings.Replace(splice, change[0], change[1], 1)), change)
	}
}

// one is a genome of one contig.
func one(t *testing.T, seq string) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">chr1\n" + seq + "\n"))
	require.NoError(t, err)
	return g
}

func TestTableOfGenes(t *testing.T) {
	g := one(t, strings.Repeat("ACGT", 100))
	read := func(text string) error {
		_, _, err := score.ReadTable(strings.NewReader(text), g)
		return err
	}
	const good = "A\t1\t+\t10\t100\t10,50,\t20,100,\n"
	require.NoError(t, read("#NAME\n"+good))
	for _, tt := range []struct{ text, err string }{
		{"", "0 lines, and none of a contig of the reference"},
		{"A\t2\t+\t10\t100\t10,\t100,\n", "1 lines, and none of a contig of the reference"},
		{good + "A\t1\t+\t10\n", "line 2: 4 columns"},
		{strings.Replace(good, "+", "x", 1), `line 1: strand "x" is neither + nor -`},
		{strings.Replace(good, "100", "1000", 1), "line 1: A ends at 1000, behind the 400 bases of contig chr1"},
		{strings.Replace(good, "\t10\t", "\tten\t", 1), `line 1: "ten" to "100" is no stretch`},
		{strings.Replace(good, "20,100", "20", 1), "line 1: 2 starts of exons and 1 ends"},
		{strings.Replace(good, "20,100", "20,101", 1), "line 1: exon 50 to 101 is no stretch of the transcript"},
		{strings.Replace(good, "20,100", "20,x", 1), `line 1: position "x" is no number`},
	} {
		require.ErrorContains(t, read(tt.text), tt.err)
	}
}

func FuzzTableOfGenes(f *testing.F) {
	f.Add("A\t1\t+\t10\t100\t10,50,\t20,100,\n")
	g, err := genome.Read(strings.NewReader(">1\n" + strings.Repeat("ACGT", 100) + "\n"))
	if err != nil {
		f.Fatal(err)
	}
	m, err := score.ParseManifest([]byte(splice))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		genes, _, err := score.ReadTable(strings.NewReader(text), g)
		if err != nil {
			return
		}
		rule := score.NewRule(&m, genes)
		for pos := 1; pos <= 400; pos += 7 {
			rule.Plan(&annotate.Spelled{Contig: g.Contigs[0], Pos: pos, Ref: string(g.Contigs[0].Seq[pos-1]), Alt: "N"}, new(score.Windows))
		}
	})
}

// TestTracks has the windows of alleles by the other rules, and their scores, written out.
func TestTracks(t *testing.T) {
	g := one(t, "AAAACCCCGGGGTTTT")
	plan := func(text string, pos int, ref, alt string) (*score.Rule, []score.Job, []string) {
		m, err := score.ParseManifest([]byte(text))
		require.NoError(t, err)
		rule, w := score.NewRule(&m, nil), new(score.Windows)
		return rule, rule.Plan(&annotate.Spelled{Contig: g.Contigs[0], Pos: pos, Ref: ref, Alt: alt}, w), w.Bases
	}
	rule, jobs, windows := plan(tracks, 8, "C", "T")
	require.Len(t, jobs, 1)
	assert.Equal(t, []string{"ACCCCGGG", "ACCCTGGG", "CCCGGGGT", "CCCAGGGT"}, windows)
	outputs := map[string][]float32{ // two bins of three channels
		"ACCCCGGG": {1, 2, 3, 4, 5, 6}, "CCCGGGGT": {0, 0, 0, 1, 1, 1},
		"ACCCTGGG": {2, 2, 3, 4, 7, 6.5}, "CCCAGGGT": {0, 4, 0, 1, 1, 1},
	}
	said, err := rule.Finish(&jobs[0], func(w int) []float32 { return outputs[windows[w]] })
	require.NoError(t, err)
	// dnase: half of 1 and of 0.5, as the other strand stays. cage: half of 7-5, and half of 4-0 in its mirrored bin.
	assert.Equal(t, []annotate.ScoreChange{{Name: "dnase", Score: 0.75}, {Name: "cage", Score: 3}}, said.Changes)
	assert.InDelta(t, 3, *said.Score, 0)

	for _, v := range []float32{float32(math.Inf(-1)), float32(math.Inf(1)), float32(math.NaN())} {
		_, err = rule.Finish(&jobs[0], func(int) []float32 { return []float32{v, v, v, v, v, v} })
		require.ErrorContains(t, err, "no finite number")
	}

	_, _, windows = plan(tracks, 2, "A", "ACCC")
	assert.Equal(t, []string{"NNNAAAAC", "NNNAACCC"}, windows[:2], "an insertion pushes bases out behind it")
	_, _, windows = plan(tracks, 12, "GTT", "G")
	assert.Equal(t, []string{"GGGGTTTT", "GGGGTTNN"}, windows[:2], "a deletion draws bases in, N behind the contig's end")
	_, jobs, windows = plan(tracks, 4, "ACCCC", "A")
	require.Len(t, jobs, 1)
	assert.Empty(t, windows)
	rule, jobs, windows = plan(strings.NewReplacer(`"difference"`, `"logit-difference"`, `"both"`, `"forward"`).Replace(tracks), 8, "C", "T")
	require.Len(t, windows, 2)
	said, err = rule.Finish(&jobs[0], func(w int) []float32 {
		return [][]float32{{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, {0.75, 0.5, 0.5, 0.5, 0, 0.75}}[w]
	})
	require.NoError(t, err)
	assert.InDelta(t, 2*1.0986, float64(said.Changes[0].Score), 1e-3)
	assert.InDelta(t, -15.94, float64(said.Changes[1].Score), 0.01, "a probability of 0 is the least that can be told")
	_, err = rule.Finish(&jobs[0], func(int) []float32 { return []float32{7, 7, 7, 7, 7, 7} })
	require.ErrorContains(t, err, "an output is 7: its outputs are no probabilities")
}

// TestWindows has the windows of alleles written out.
func TestWindows(t *testing.T) {
	//                   1234567890123456789012345
	g := one(t, "AAAACCCCGGGGTTTTRACGTAACC")
	m, err := score.ParseManifest([]byte(splice)) // windows of 6 + 5 bases
	require.NoError(t, err)
	plus, _, err := score.ReadTable(strings.NewReader("P\tchr1\t+\t7\t20\t7,\t20,\n"), g)
	require.NoError(t, err)
	minus, _, err := score.ReadTable(strings.NewReader("M\t1\t-\t7\t20\t7,\t20,\n"), g)
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		genes   *score.Genes
		pos     int
		ref     string
		alt     string
		windows []string
		jobs    int
	}{
		{"what lies outside of the transcript is N", plus, 9, "G", "T", []string{"NNNNCGGGGTT", "NNNNCTGGGTT"}, 1},
		{"lower case is raised", plus, 9, "g", "t", []string{"NNNNCGGGGTT", "NNNNCTGGGTT"}, 1},
		{"the other strand", minus, 9, "G", "T", []string{"AACCCCGNNNN", "AACCCAGNNNN"}, 1},
		{"other letters are N on the other strand, and unknown on this", minus, 17, "R", "A", []string{"NNCGTNAAAAC", "NNCGTTAAAAC"}, 1},
		{"a deletion's window is shorter, and N behind", plus, 12, "GTT", "G", []string{"NCGGGGTTTTR", "NCGGGGTTRNN"}, 1},
		{"an insertion's window is longer, and two", plus, 12, "G", "GA", []string{"NCGGGGTTTTR", "NCGGGGATTTT", "GATTTTRNNNN"}, 1},
		{"both longer than one", plus, 12, "GT", "GAA", nil, 1},
		{"no gene", plus, 7, "C", "T", nil, 0},
		{"the last base of a gene", plus, 20, "G", "T", []string{"TTRACGNNNNN", "TTRACTNNNNN"}, 1},
		{"not the reference", plus, 9, "A", "T", nil, 0},
		{"not an allele", plus, 9, "G", "<DEL>", nil, 0},
		{"not an allele either", plus, 9, "G", "*", nil, 0},
		{"REF longer than twice the distance", plus, 9, "GGGGT", "G", nil, 0},
		{"the contig ends", plus, 21, "T", "G", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w score.Windows
			rule := score.NewRule(&m, tt.genes)
			jobs := rule.Plan(&annotate.Spelled{Contig: g.Contigs[0], Pos: tt.pos, Ref: tt.ref, Alt: tt.alt}, &w)
			assert.Len(t, jobs, tt.jobs)
			assert.Equal(t, tt.windows, w.Bases)
		})
	}
}
