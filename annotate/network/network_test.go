package network_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/network"
	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/genome"
)

// needLibrary skips a test where ONNX Runtime hasn't been fetched.
func needLibrary(t testing.TB) {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

const splice = "testdata/splice"

// spliceGenes are the genome and the genes that testdata/make_golden.py made.
func spliceGenes(t *testing.T) (*genome.Genome, *score.Genes) {
	t.Helper()
	g, err := genome.Load(splice + "/reference.fa")
	require.NoError(t, err)
	f, err := os.Open(splice + "/genes.tsv")
	require.NoError(t, err)
	defer f.Close()
	genes, leftOut, err := score.ReadTable(f, g)
	require.NoError(t, err)
	require.Zero(t, leftOut)
	return g, genes
}

// spliceModel is the model of testdata, with changes of its manifest.
func spliceModel(t *testing.T, changes ...string) (*network.Model, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(splice)))
	path := filepath.Join(dir, "manifest.toml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := strings.NewReplacer(changes...).Replace(string(text))
	if len(changes) > 0 {
		require.NotEqual(t, string(text), changed)
	}
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o644))
	return network.OpenModel(dir)
}

// TestGolden holds scores to those that an independent implementation gives the same variants: numpy, in double precision.
func TestGolden(t *testing.T) {
	needLibrary(t)
	g, genes := spliceGenes(t)
	f, err := os.Open(splice + "/expected.tsv")
	require.NoError(t, err)
	defer f.Close()
	settings := make(map[[2]string][][]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if f := strings.Split(lines.Text(), "\t"); !strings.HasPrefix(f[0], "#") {
			settings[[2]string{f[0], f[1]}] = append(settings[[2]string{f[0], f[1]}], f)
		}
	}
	require.NoError(t, lines.Err())
	require.Len(t, settings, 3)
	compared := 0
	for setting, rows := range settings {
		model, err := spliceModel(t, "distance = 10\n", "distance = "+setting[0]+"\nmask = "+strconv.FormatBool(setting[1] == "1")+"\n")
		require.NoError(t, err)
		s, err := network.NewScorer([]*network.Model{model}, genes, network.Config{Device: "cpu"})
		require.NoError(t, err)
		alleles := make([]annotate.Spelled, len(rows))
		for i, row := range rows {
			pos, err := strconv.Atoi(row[2])
			require.NoError(t, err)
			alleles[i] = annotate.Spelled{Contig: g.Contigs[0], Pos: pos, Ref: row[3], Alt: row[4]}
		}
		scores, err := s.Score(alleles)
		require.NoError(t, err)
		for i, row := range rows {
			compared += compareGolden(t, row, scores[i])
		}
		require.NoError(t, s.Close())
	}
	assert.Greater(t, compared, 300)
}

// compareGolden compares an allele's scores with a row of the table, to two decimals.
func compareGolden(t *testing.T, row []string, scores []annotate.Score) (compared int) {
	t.Helper()
	if row[5] == "." {
		assert.Empty(t, scores, row)
		return 0
	}
	expected := strings.Split(row[5], ",")
	require.Len(t, scores, len(expected), row)
	for i, s := range scores {
		want := strings.Split(expected[i], "|")
		assert.Equal(t, want[1], s.Gene, row)
		if want[2] == "." {
			assert.Empty(t, s.Changes, row)
			assert.Nil(t, s.Score)
			assert.NotEmpty(t, s.Unscored)
			continue
		}
		compared++
		require.Len(t, s.Changes, 4)
		largest := 0.0
		for k, c := range s.Changes {
			value, err := strconv.ParseFloat(want[2+k], 64)
			require.NoError(t, err)
			assert.InDelta(t, value, float64(c.Score), 0.0051, "%v %s", row, c.Name)
			assert.Equal(t, want[6+k], strconv.Itoa(*c.Position), "%v %s", row, c.Name)
			largest = max(largest, math.Abs(float64(c.Score)))
		}
		assert.InDelta(t, largest, *s.Score, 1e-9)
	}
	return compared
}

// TestTogether: scores are the same whatever they are asked together with, and by how many, and of networks that give way.
func TestTogether(t *testing.T) {
	needLibrary(t)
	g, genes := spliceGenes(t)
	model, err := spliceModel(t)
	require.NoError(t, err)
	s, err := network.NewScorer([]*network.Model{model}, genes, network.Config{Device: "cpu"})
	require.NoError(t, err)
	defer s.Close()
	var alleles []annotate.Spelled
	for pos := 70; pos < 2300; pos += 11 {
		ref := string(g.Contigs[0].Seq[pos-1])
		alleles = append(alleles, annotate.Spelled{Contig: g.Contigs[0], Pos: pos, Ref: ref, Alt: ref + "AC"})
	}
	want, err := s.Score(alleles)
	require.NoError(t, err)
	way, err := network.NewScorer([]*network.Model{model}, genes, network.Config{Device: "cpu", GivesWay: true})
	require.NoError(t, err)
	defer way.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 5 {
		order, scorer := rng.Perm(len(alleles)), []*network.Scorer{s, way}[round%2]
		for len(order) > 0 {
			n := min(1+rng.IntN(40), len(order))
			some := make([]annotate.Spelled, n)
			for i, k := range order[:n] {
				some[i] = alleles[k]
			}
			got, err := scorer.Score(some)
			require.NoError(t, err)
			for i, k := range order[:n] {
				require.Equal(t, want[k], got[i])
			}
			order = order[n:]
		}
	}
}

// TestLies has manifests that don't say what their network is.
func TestLies(t *testing.T) {
	needLibrary(t)
	_, genes := spliceGenes(t)
	for _, tt := range []struct {
		name, err string
		changes   []string
	}{
		{"context too long", "small1.onnx: windows of 47 bases become outputs of shape [23 3], and by its manifest they should have [21 3]: input.context is 26 there, and the network's seems to be 24", []string{"context = 24", "context = 26"}},
		{"context too short", "input.context is 22 there, and the network's seems to be 24", []string{"context = 24", "context = 22"}},
		{"input's name", `has no input "z", only "x"`, []string{`name = "x"`, `name = "z"`}},
		{"output's name", `has no output "z", only "y"`, []string{`name = "y"`, `name = "z"`}},
		{"layout of the input", `axis 2 of input "x" is 4, not 45`, []string{"layout = \"NLC\"\nchannels = \"ACGT\"", "layout = \"NCL\"\nchannels = \"ACGT\""}},
		{"another network", "the file is damaged or belongs to another manifest", []string{"small1.onnx", "small2.onnx"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model, err := spliceModel(t, tt.changes...)
			if err == nil {
				_, err = network.NewScorer([]*network.Model{model}, genes, network.Config{Device: "cpu"})
			}
			require.ErrorContains(t, err, tt.err)
			assert.NotContains(t, err.Error(), "\n")
			assert.NotRegexp(t, "ONNXRuntimeError|onnxruntime_src|Non-zero status", err.Error(), "the runtime's own words")
			assert.Less(t, len(err.Error()), 350)
		})
	}
	model, err := spliceModel(t)
	require.NoError(t, err)
	_, err = network.NewScorer([]*network.Model{model, model}, genes, network.Config{Device: "cpu"})
	require.ErrorContains(t, err, "two networks are named small, or write INFO/Small")
	_, err = network.OpenModel("testdata")
	require.ErrorContains(t, err, "manifest.toml")
}

// regulatory has the shape of networks that predict tracks of activity along a long window, such as Enformer's: the window in
// steps of pool bases, each of which becomes bins with thousands of outputs; here by two convolutions, from a seed.
type regulatory struct {
	window, pool, inner, outputs int
	first, second                []float32 // [inner, 4, pool] and [outputs, inner]
}

func newRegulatory(window, pool, inner, outputs int) *regulatory {
	r := &regulatory{window: window, pool: pool, inner: inner, outputs: outputs}
	rng := rand.New(rand.NewPCG(5, 7))
	draw := func(n int, sd float64) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * sd)
		}
		return w
	}
	r.first, r.second = draw(inner*4*pool, 0.2), draw(outputs*inner, 0.5)
	return r
}

// hidden are the inner values of each bin, computed the plain way.
func (r *regulatory) hidden(window []byte) [][]float64 {
	bins := make([][]float64, r.window/r.pool)
	for bin := range bins {
		bins[bin] = make([]float64, r.inner)
		for i := range r.inner {
			x := 0.0
			for k, base := range window[bin*r.pool : (bin+1)*r.pool] {
				if c := strings.IndexByte("ACGT", base); c >= 0 {
					x += float64(r.first[(i*4+c)*r.pool+k])
				}
			}
			bins[bin][i] = math.Tanh(x)
		}
	}
	return bins
}

// probability is an output of a bin.
func (r *regulatory) probability(hidden []float64, output int) float64 {
	sum := 0.0
	for i, x := range hidden {
		sum += x * float64(r.second[output*r.inner+i])
	}
	return 1 / (1 + math.Exp(-sum))
}

// model is the network, as ONNX, with a manifest.
func (r *regulatory) model(t *testing.T, tracks string) *network.Model {
	t.Helper()
	tensor := func(name string, data []float32, dims ...int64) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims, FloatData: data}
	}
	end := func(name string, dims ...int64) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}}}}
		for _, n := range dims {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
		}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: shape},
		}}}
	}
	node := func(op, out string, attribute *onnxpb.AttributeProto, in ...string) *onnxpb.NodeProto {
		n := &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}}
		if attribute != nil {
			n.Attribute = append(n.Attribute, attribute)
		}
		return n
	}
	ints := func(name string, v ...int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
	}
	bins := r.window / r.pool
	onnx, err := proto.Marshal(&onnxpb.ModelProto{
		IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph: &onnxpb.GraphProto{
			Name:        "regulatory",
			Initializer: []*onnxpb.TensorProto{tensor("w1", r.first, int64(r.inner), 4, int64(r.pool)), tensor("w2", r.second, int64(r.outputs), int64(r.inner), 1)},
			Input:       []*onnxpb.ValueInfoProto{end("x", int64(r.window), 4)},
			Output:      []*onnxpb.ValueInfoProto{end("y", int64(bins), int64(r.outputs))},
			Node: []*onnxpb.NodeProto{
				node("Transpose", "t", ints("perm", 0, 2, 1), "x"),
				node("Conv", "c", ints("strides", int64(r.pool)), "t", "w1"), node("Tanh", "a", nil, "c"),
				node("Conv", "z", nil, "a", "w2"), node("Sigmoid", "p", nil, "z"), node("Transpose", "y", ints("perm", 0, 2, 1), "p"),
			},
		},
	})
	require.NoError(t, err)
	m, err := score.ParseManifest(fmt.Appendf(nil, `format = 1
kind = "sequence"
name = "regulatory"
version = "1"
rule = "logit-difference"
info = "Regulatory"
licence = "Apache-2.0"
[input]
name = "x"
layout = "NLC"
channels = "ACGT"
unknown = "zero"
strand = "both"
length = %d
[output]
name = "y"
layout = "NLC"
count = %d
bins = %d
%s
[[networks]]
file = "regulatory.onnx"
sha256 = "%x"
`, r.window, r.outputs, bins, tracks, sha256.Sum256(onnx)))
	require.NoError(t, err)
	return &network.Model{Manifest: m, Networks: [][]byte{onnx}}
}

// TestRegulatory has a network of Enformer's shape, 196,608 bases in 1,536 bins of 5,313 outputs each, score variants by the
// logits of tracks, and holds them to sums written out.
func TestRegulatory(t *testing.T) {
	needLibrary(t)
	const pool = 128
	r := newRegulatory(196608, pool, 3, 5313)
	rng := rand.New(rand.NewPCG(1, 1))
	seq := make([]byte, 250_000)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
	}
	g, err := genome.Read(strings.NewReader(">one\n" + string(seq) + "\n"))
	require.NoError(t, err)
	n, err := network.NewScorer([]*network.Model{r.model(t, `[[tracks]]
name = "dnase"
outputs = "0-683"
bins = "760-776"
combine = "mean"
[[tracks]]
name = "cage"
outputs = "4675,5312"
`)}, nil, network.Config{Device: "cpu", Sessions: 1})
	require.NoError(t, err)
	defer n.Close()
	alleles := []annotate.Spelled{
		{Contig: g.Contigs[0], Pos: 125_000, Ref: string(seq[124_999]), Alt: "N"},
		{Contig: g.Contigs[0], Pos: 40_000, Ref: string(seq[39_999]), Alt: string(seq[39_999]) + "ACGTA"},
	}
	scores, err := n.Score(alleles)
	require.NoError(t, err)
	for i, a := range alleles {
		from := a.Pos - 1 - r.window/2
		at := func(i int) byte {
			if i < 0 || i >= len(seq) {
				return 'N'
			}
			return seq[i]
		}
		before, after := make([]byte, r.window), make([]byte, 0, r.window)
		for k := range before {
			before[k] = at(from + k)
		}
		after = append(append(after, before[:r.window/2]...), a.Alt...)
		for k := a.Pos; len(after) < r.window; k++ {
			after = append(after, at(k))
		}
		strands := [2][2][][]float64{{r.hidden(before), r.hidden(reverseComplement(before))}, {r.hidden(after), r.hidden(reverseComplement(after))}}
		change := func(bin, output int) float64 {
			var logit [2]float64
			for k, of := range strands {
				p := (r.probability(of[0][bin], output) + r.probability(of[1][r.window/pool-1-bin], output)) / 2
				logit[k] = math.Log(p / (1 - p))
			}
			return logit[1] - logit[0]
		}
		sum, cage := 0.0, 0.0
		for bin := 760; bin <= 776; bin++ {
			for output := range 684 {
				sum += change(bin, output)
			}
		}
		for bin := range r.window / pool {
			cage += change(bin, 4675) + change(bin, 5312)
		}
		require.Len(t, scores[i], 1)
		changes := scores[i][0].Changes
		require.Len(t, changes, 2)
		assert.InDelta(t, sum/17/684, float64(changes[0].Score), 2e-4)
		assert.InDelta(t, cage, float64(changes[1].Score), 2e-3)
		assert.NotZero(t, changes[1].Score)
	}
}

func reverseComplement(window []byte) []byte {
	out := make([]byte, len(window))
	for i, b := range window {
		out[len(window)-1-i] = map[byte]byte{'A': 'T', 'C': 'G', 'G': 'C', 'T': 'A'}[b]
	}
	return out
}

// TestCancelled: who no longer wants an answer doesn't wait for it.
func TestCancelled(t *testing.T) {
	needLibrary(t)
	g, genes := spliceGenes(t)
	model, err := spliceModel(t)
	require.NoError(t, err)
	s, err := network.NewScorer([]*network.Model{model}, genes, network.Config{Device: "cpu"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ref := string(g.Contigs[0].Seq[99])
	_, err = s.ScoreContext(ctx, []annotate.Spelled{{Contig: g.Contigs[0], Pos: 100, Ref: ref, Alt: ref + "A"}})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Close())
	_, err = s.Score([]annotate.Spelled{{Contig: g.Contigs[0], Pos: 100, Ref: ref, Alt: ref + "A"}})
	require.ErrorIs(t, err, infer.ErrClosed)
}
