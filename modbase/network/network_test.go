package network

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/testenv"
)

var update = flag.Bool("update", false, "write testdata/remora/scores.json anew, by the remora package")

// made is a network of Remora's form with random weights, one linear layer over everything, and metadata.
type made struct {
	name string
	meta map[string]string
}

// with are the metadata of a plain model of 5mC at CG, changed.
func with(name string, changes ...string) made {
	m := made{name, map[string]string{
		"base_pred": "False", "mod_bases": "m", "mod_long_names_0": "5mC", "chunk_context_0": "20", "chunk_context_1": "30",
		"kmer_context_bases_0": "2", "kmer_context_bases_1": "3", "motif": "CG", "motif_offset": "0",
	}}
	for i := 0; i < len(changes); i += 2 {
		m.meta[changes[i]] = changes[i+1]
	}
	return m
}

// refined are the metadata that later models have.
func refined(name string, changes ...string) made {
	rng := rand.New(rand.NewPCG(7, 7))
	var table []byte
	for range 1 << (2 * 4) {
		table = binary.LittleEndian.AppendUint32(table, math.Float32bits(float32(rng.NormFloat64())))
	}
	text, err := charmap.CodePage437.NewDecoder().Bytes(table)
	if err != nil {
		panic(err)
	}
	return with(name, append([]string{
		"refine_kmer_levels", string(text), "refine_kmer_center_idx", "2", "refine_do_rough_rescale", "1", "refine_scale_iters", "-1",
		"refine_algo", "dwell_penalty", "refine_half_bandwidth", "5", "refine_sd_arr", "", "base_start_justify", "False", "offset", "0",
		"num_motifs", "1", "motif_0", "CG", "motif_offset_0", "0",
	}, changes...)...)
}

// golden are the models that are held to Remora.
func golden() []made {
	return []made{
		with("dna_r9.4.1_plain"),
		refined("dna_r10.4.1_levels"),
		refined("dna_r10.4.1_unscaled", "refine_do_rough_rescale", "0"),
		refined("dna_r10.4.1_shifted", "base_start_justify", "True", "offset", "-2"),
		refined("dna_r10.4.1_two", "mod_bases", "hm", "mod_long_names_1", "5mC", "num_motifs", "2", "motif_1", "NCHH", "motif_offset_1", "1"),
		refined("dna_r10.4.1_adenine", "mod_bases", "a", "motif_0", "A", "chunk_context_0", "60", "chunk_context_1", "40", "offset", "3"),
	}
}

// file is the model's ONNX file.
func (m made) file(tb testing.TB) []byte {
	tb.Helper()
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(m.meta[key], 10, 64) // 0 for what is to be refused
		return n
	}
	samples := number("chunk_context_0") + number("chunk_context_1")
	channels := 4 * (1 + number("kmer_context_bases_0") + number("kmer_context_bases_1"))
	classes := int64(1 + len(m.meta["mod_bases"]))
	rng := rand.New(rand.NewPCG(1, uint64(len(m.name))))
	weights := func(name string, inner int64) *onnxpb.TensorProto {
		t := &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: []int64{inner, classes}}
		for range inner * classes {
			t.FloatData = append(t.FloatData, float32(rng.NormFloat64()/16))
		}
		return t
	}
	end := func(name string, dims ...int64) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "batch_size"}}}}
		for _, n := range dims {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
		}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: shape},
		}}}
	}
	node := func(op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}}
	}
	file := &onnxpb.ModelProto{
		IrVersion: 5, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 10}},
		Graph: &onnxpb.GraphProto{
			Name:        "made",
			Initializer: []*onnxpb.TensorProto{weights("w1", samples), weights("w2", channels*samples)},
			Input:       []*onnxpb.ValueInfoProto{end("sig", 1, samples), end("seq", channels, samples)},
			Output:      []*onnxpb.ValueInfoProto{end("output", classes)},
			Node: []*onnxpb.NodeProto{
				node("Flatten", "f1", "sig"), node("Flatten", "f2", "seq"), node("MatMul", "y1", "f1", "w1"), node("MatMul", "y2", "f2", "w2"),
				node("Add", "output", "y1", "y2"),
			},
		},
	}
	for _, key := range slices.Sorted(maps.Keys(m.meta)) {
		file.MetadataProps = append(file.MetadataProps, &onnxpb.StringStringEntryProto{Key: key, Value: m.meta[key]})
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(file)
	require.NoError(tb, err)
	return data
}

// parsed is the model.
func (m made) parsed(tb testing.TB) *Model {
	tb.Helper()
	model, err := ParseModel(m.file(tb), m.name+".onnx")
	require.NoError(tb, err)
	return model
}

// called is a made-up read: its samples, and what it is called. It has bases in front and behind that are cut off.
func called(rng *rand.Rand, bases int) ([]int16, basecall.Called) {
	c := basecall.Called{Stride: 5, Shift: 510, Scale: 88, TrimmedSamples: 3 * rng.IntN(4)}
	if rng.IntN(2) == 0 {
		c.Moves = append(c.Moves, 0, 0) // frames before the first base
	}
	for range bases {
		c.Sequence = append(c.Sequence, "ACGT"[rng.IntN(4)])
		c.Qualities = append(c.Qualities, 10)
		c.Moves = append(c.Moves, 1)
		c.Moves = append(c.Moves, make([]byte, rng.IntN(4))...)
	}
	c.NumSamples = c.TrimmedSamples + c.Stride*len(c.Moves) + rng.IntN(40)
	samples := make([]int16, c.NumSamples)
	level := 0.0
	for i := range samples {
		if rng.IntN(8) == 0 {
			level = 500 + 90*rng.NormFloat64()
		}
		samples[i] = int16(level + 9*rng.NormFloat64())
	}
	return samples, c
}

// reads are those that are held to Remora: long ones, and some so short that hardly anything is around a base.
func reads() (samples [][]int16, all []basecall.Called) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{300, 120, 60, 25, 20, 12} {
		s, c := called(rng, n)
		samples, all = append(samples, s), append(all, c)
	}
	return samples, all
}

// remoraScores is what Remora reports of a read.
type remoraScores struct {
	Places []int32     `json:"places"`
	Scores [][]float32 `json:"scores"`
}

// remora has the remora package score reads as they are given to networks.
func remora(tb testing.TB, python, model string, m *Model, samples [][]int16, calls []basecall.Called) []remoraScores {
	tb.Helper()
	var in bytes.Buffer
	lines := json.NewEncoder(&in)
	for i := range calls {
		var r read
		require.True(tb, r.set(samples[i], &calls[i]))
		require.NoError(tb, lines.Encode(map[string]any{"samples": r.samples, "starts": r.starts, "bases": string(calls[i].Sequence), "shift": calls[i].Shift, "scale": calls[i].Scale}))
	}
	cmd := exec.CommandContext(tb.Context(), python, "testdata/remora/judge.py", model)
	cmd.Stdin = &in
	out, err := cmd.Output()
	require.NoError(tb, err, "%s: %s", m.Name, stderr(err))
	var all []remoraScores
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var t remoraScores
		require.NoError(tb, decoder.Decode(&t))
		all = append(all, t)
	}
	require.Len(tb, all, len(calls))
	return all
}

func stderr(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // it is of Output alone
		return string(exit.Stderr)
	}
	return ""
}

// scores are what a network says of a read, before they become probabilities.
func scores(tb testing.TB, n *network, samples []int16, c *basecall.Called) remoraScores {
	tb.Helper()
	var r read
	require.True(tb, r.set(samples, c))
	require.True(tb, n.model.form.prepare(&r, c))
	t := remoraScores{Places: r.places(nil, n.model.Motifs), Scores: [][]float32{}}
	producer := n.batcher.NewProducer(1)
	defer producer.Close()
	for _, place := range t.Places {
		req := n.requests.New().(*infer.Request)
		n.model.form.fill(req.Input, &r, &row{places: []int32{place}})
		require.NoError(tb, producer.Submit(tb.Context(), req))
		req, err := producer.Receive(tb.Context())
		require.NoError(tb, err)
		require.NoError(tb, req.Err)
		t.Scores = append(t.Scores, slices.Clone(req.Output))
	}
	return t
}

// atInspected are the places as Remora gives them: those of the bases at the windows' centres, not of those that are
// scored.
func (t remoraScores) atInspected(m *Model, bases int) remoraScores {
	t.Places = slices.Clone(t.Places)
	for i := range t.Places {
		t.Places[i] = int32(min(max(int(t.Places[i])+m.form.(*contexts).offset, 0), bases-1))
	}
	return t
}

// agree holds scores to Remora's.
func agree(tb testing.TB, what string, want, have remoraScores) {
	tb.Helper()
	require.Equal(tb, len(want.Places), len(have.Places), what)
	for i := range want.Places {
		require.Equal(tb, want.Places[i], have.Places[i], what)
		for k := range want.Scores[i] {
			require.InDelta(tb, want.Scores[i][k], have.Scores[i][k], 1e-4, "%s: base %d, score %d", what, want.Places[i], k)
		}
	}
}

func open1(tb testing.TB, m *Model) *Caller {
	tb.Helper()
	c, err := New([]*Model{m}, Config{Device: "cpu", Sessions: 1})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, c.Close()) })
	return c
}

// TestScoresAreRemoras holds models of all settings to what the remora package 1.1.1 said of the same reads.
func TestScoresAreRemoras(t *testing.T) {
	const path = "testdata/remora/scores.json"
	samples, calls := reads()
	if *update {
		python := testenv.Python(t, "PORESTREAM_REMORA_PYTHON", "ont-remora==1.1.1", "remora")
		all := make(map[string][]remoraScores)
		for _, m := range golden() {
			file := filepath.Join(t.TempDir(), m.name+".onnx")
			require.NoError(t, os.WriteFile(file, m.file(t), 0o600))
			all[m.name] = remora(t, python, file, m.parsed(t), samples, calls)
		}
		// One is what tests of the commands call with.
		require.NoError(t, os.WriteFile("testdata/dna_r9.4.1_made.onnx", golden()[0].file(t), 0o600))
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var want map[string][]remoraScores
	require.NoError(t, json.Unmarshal(text, &want))
	for _, m := range golden() {
		t.Run(m.name, func(t *testing.T) {
			n := open1(t, m.parsed(t)).networks[0]
			require.Len(t, want[m.name], len(calls))
			scored := 0
			for i := range calls {
				agree(t, fmt.Sprintf("read %d", i), want[m.name][i], scores(t, n, samples[i], &calls[i]).atInspected(n.model, len(calls[i].Sequence)))
				scored += len(want[m.name][i].Places)
			}
			require.Greater(t, scored, 20)
		})
	}
}

// TestTrainedNetworksAreRemoras does the same with the networks in Remora's package, by the package itself.
func TestTrainedNetworksAreRemoras(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	folder := testenv.Path(t, "PORESTREAM_REMORA_MODELS", "the folder trained_models of ont-remora 1.1.1")
	python := testenv.Python(t, "PORESTREAM_REMORA_PYTHON", "ont-remora==1.1.1", "remora")
	samples, calls := reads()
	for _, of := range []string{
		"dna_r9.4.1_e8/hac/0.0.0/5mc/CG/v0", "dna_r9.4.1_e8/hac/0.0.0/5hmc_5mc/CG/v0", "dna_r10.4.1_e8.2/fast/v3.5.1/5mc/CG/v0",
		"dna_r10.4.1_e8.2/sup/v3.5.1/5mc/CG/v1", "dna_r10.4_e8.1/hac/v3.3/5mc/CG/v1",
	} {
		t.Run(of, func(t *testing.T) {
			path := filepath.Join(folder, filepath.FromSlash(of), "modbase_model.onnx")
			m, err := OpenModel(path)
			require.NoError(t, err)
			want := remora(t, python, path, m, samples, calls)
			n := open1(t, m).networks[0]
			for i := range calls {
				agree(t, fmt.Sprintf("read %d", i), want[i], scores(t, n, samples[i], &calls[i]))
			}
		})
	}
}

// TestCall: tags are what scores say, in one list for all codes, whatever else is asked at the same time.
func TestCall(t *testing.T) {
	samples, calls := reads()
	model := golden()[4].parsed(t)
	c := open1(t, model)
	for i := range calls {
		tags, err := c.Call(t.Context(), samples[i], &calls[i])
		require.NoError(t, err)
		s := modbase.Sequence{Bases: calls[i].Sequence}
		require.NoError(t, tags.Check(s))
		want := scores(t, c.networks[0], samples[i], &calls[i])
		require.Len(t, tags.Lists, 1)
		assert.True(t, strings.HasPrefix(tags.MM(), "C+hm?"), tags.MM())
		places, err := tags.Lists[0].Places(nil, s)
		require.NoError(t, err)
		require.Equal(t, len(want.Places), len(places))
		for k, place := range places {
			require.Equal(t, want.Places[k], place)
			p, err := softmax(nil, want.Scores[k])
			require.NoError(t, err)
			for code := range 2 {
				require.Equal(t, byte(min(255, math.Floor(256*p[1+code]))), tags.Lists[0].Probabilities[2*k+code])
			}
		}
	}
	// Current that is always the same can't be held against levels, and a read may have no bases, or nothing to scale by.
	same := make([]int16, calls[0].NumSamples)
	unscaled := calls[0]
	unscaled.Scale = 0
	for _, tt := range []struct {
		m made
		c basecall.Called
	}{{golden()[1], calls[0]}, {golden()[0], unscaled}, {golden()[0], basecall.Called{Stride: 5, Moves: make([]byte, 10), NumSamples: 50, Scale: 1}}} {
		tags, err := open1(t, tt.m.parsed(t)).Call(t.Context(), same[:tt.c.NumSamples], &tt.c)
		require.NoError(t, err)
		assert.Equal(t, "C+m?;", tags.MM())
		assert.NotNil(t, tags.ML())
	}
}

// TestTogether: reads that are scored side by side, by two models, get the scores that they get
// alone.
func TestTogether(t *testing.T) {
	models := []*Model{golden()[1].parsed(t), golden()[5].parsed(t)}
	c, err := New(models, Config{Device: "cpu", Sessions: 2})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	samples, calls := reads()
	want := make([]*modbase.Tags, len(calls))
	for i := range calls {
		want[i], err = c.Call(t.Context(), samples[i], &calls[i])
		require.NoError(t, err)
		require.Len(t, want[i].Lists, 2)
	}
	t.Run("side by side", func(t *testing.T) {
		for i := range 24 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				i %= len(calls)
				have, err := c.Call(t.Context(), samples[i], &calls[i])
				require.NoError(t, err)
				assert.Equal(t, want[i], have)
			})
		}
	})
}

// TestModelsOfTheSameBase: two models are refused where a base of some read would get probabilities of both.
func TestModelsOfTheSameBase(t *testing.T) {
	model := func(name, code, motif, place string) *Model {
		return with("dna_r9.4.1_"+name, "mod_bases", code, "motif", motif, "motif_offset", place).parsed(t)
	}
	for _, tt := range []struct {
		a, b *Model
		want string
	}{
		{model("a", "m", "CG", "0"), model("b", "m", "CHH", "0"), "dna_r9.4.1_a and dna_r9.4.1_b both call m"},
		{model("a", "m", "CG", "0"), model("b", "h", "CG", "0"), "dna_r9.4.1_a and dna_r9.4.1_b both score the C of CG,0 and CG,0: choose one"},
		{model("a", "m", "CG", "0"), model("b", "h", "C", "0"), "both score the C of CG,0 and C,0"},
		{model("a", "m", "CG", "0"), model("b", "h", "GCN", "1"), "both score"},
		{model("a", "m", "CCWGG", "1"), model("b", "h", "CG", "0"), ""}, // W is no G
		{model("a", "m", "CG", "0"), model("b", "h", "CH", "0"), ""},
		{model("a", "m", "GC", "1"), model("b", "h", "HC", "1"), ""},
		{model("a", "m", "CG", "0"), model("b", "a", "A", "0"), ""},
	} {
		for _, pair := range [][]*Model{{tt.a, tt.b}, {tt.b, tt.a}} {
			err := apart(pair[0], pair[1])
			if tt.want == "" {
				require.NoError(t, err)
				continue
			}
			require.Error(t, err)
		}
		if tt.want != "" {
			_, err := New([]*Model{tt.a, tt.b}, Config{Device: "cpu"})
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestParseModelRefuses(t *testing.T) {
	for _, tt := range []struct {
		m    made
		want string
	}{
		{with("hac"), "which pore"},
		{with("dna_r9.4.1_x", "base_pred", "True"), "trained to call bases"},
		{with("dna_r9.4.1_x", "mod_bases", ""), "no modification"},
		{with("dna_r9.4.1_x", "mod_bases", "mm"), "a code twice"},
		{with("dna_r9.4.1_x", "mod_bases", "?"), "want a letter"},
		{with("dna_r9.4.1_x", "motif", "C1"), "no motif"},
		{with("dna_r9.4.1_x", "motif_offset", "2"), "no number from 0 to 1"},
		{with("dna_r9.4.1_x", "motif", "NG"), "models score one base"},
		{with("dna_r9.4.1_x", "chunk_context_0", "many"), `chunk_context_0 = "many"`},
		{with("dna_r9.4.1_x", "chunk_context_0", "0", "chunk_context_1", "0"), "no samples"},
		{refined("dna_r10.4.1_x", "refine_scale_iters", "0"), "refine_scale_iters"},
		{refined("dna_r10.4.1_x", "refine_kmer_levels", "abc"), "no table of levels"},
		{refined("dna_r10.4.1_x", "refine_kmer_center_idx", "4"), "no number from 0 to 3"},
		{refined("dna_r10.4.1_x", "num_motifs", "2", "motif_1", "GATC", "motif_offset_1", "1"), "models score one base"},
	} {
		_, err := ParseModel(tt.m.file(t), tt.m.name+".onnx")
		require.ErrorContains(t, err, tt.want)
		assert.NotContains(t, err.Error(), "\n")
	}
	_, err := ParseModel([]byte("not ONNX"), "dna_r9.4.1_x.onnx")
	require.ErrorContains(t, err, "no ONNX file, or a part of one")
	require.NotErrorIs(t, err, ErrNotRemora)
	_, err = OpenModel(t.TempDir())
	require.ErrorContains(t, err, "name the .onnx file")
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		path, name, chemistry string
		rate                  int
	}{
		{"dna_r9.4.1_e8_hac_0.0.0_5mc_CG_v0.onnx", "dna_r9.4.1_e8_hac_0.0.0_5mc_CG_v0", "r9.4", 4000},
		{"x/dna_r10.4.1_e8.2/sup/v3.5.1/5mc/CG/v1/modbase_model.onnx", "dna_r10.4.1_e8.2_sup_v3.5.1_5mc_CG_v1", "r10.4.1", 4000},
		{"dna_r9.4.1/dna_r10.4.1_mine.onnx", "dna_r10.4.1_mine", "r10.4.1", 4000},
		{"mine-dna_r10.4_x.onnx", "mine-dna_r10.4_x", "r10.4", 4000},
		{"dna_r10.4.1_e8.2_5khz_400bps_hac_5mc_CG.onnx", "dna_r10.4.1_e8.2_5khz_400bps_hac_5mc_CG", "r10.4.1", 5000},
		{"dna_r10.4.1_e8.2_5khz/sup/v4/5mc/CG/v1/modbase_model.onnx", "dna_r10.4.1_e8.2_5khz_sup_v4_5mc_CG_v1", "r10.4.1", 5000},
		{"x.onnx", "", "", 0},
		// Folders that aren't of Remora's package say nothing.
		{"dna_r10.4.1_project/mymodel.onnx", "", "", 0},
		{"dna_r10.4.1_project/modbase_model.onnx", "", "", 0},
		{"dna_r10.4.1_project/my/data/sup/v3.5.1/5mc/CG/v1/modbase_model.onnx", "", "", 0},
	} {
		name, chemistry, rate, err := named(tt.path)
		assert.Equal(t, tt.name, name, tt.path)
		assert.Equal(t, tt.chemistry, chemistry, tt.path)
		assert.Equal(t, tt.rate, rate, tt.path)
		if tt.name == "" {
			require.ErrorContains(t, err, "which pore", tt.path)
			continue
		}
		require.NoError(t, err)
	}
}

func TestFits(t *testing.T) {
	m := golden()[0].parsed(t)
	fits := basecall.Manifest{Name: "b", Chemistry: "r9.4", SampleRates: []int{4000}}
	require.NoError(t, m.Fits(&fits))
	for _, tt := range []struct {
		chemistry string
		rate      int
		want      string
	}{
		{"r10.4.1", 4000, "is for r9.4, and basecalling model b for r10.4.1"},
		{"r9.4", 5000, "is for 4000 Hz, and basecalling model b for [5000] Hz"},
		{"rna004", 4000, "for RNA"},
	} {
		require.ErrorContains(t, m.Fits(&basecall.Manifest{Name: "b", Chemistry: tt.chemistry, SampleRates: []int{tt.rate}}), tt.want)
	}
	fast := with("dna_r10.4.1_e8.2_5khz_x").parsed(t)
	require.ErrorContains(t, fast.Fits(&basecall.Manifest{Name: "b", Chemistry: "r10.4.1", SampleRates: []int{4000}}), "is for 5000 Hz, and basecalling model b for [4000] Hz")
	require.NoError(t, fast.Fits(&basecall.Manifest{Name: "b", Chemistry: "r10.4.1", SampleRates: []int{5000}}))
}

func FuzzParseModel(f *testing.F) {
	f.Add(golden()[0].file(f))
	f.Add(golden()[1].file(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseModel(data, "dna_r9.4.1_x.onnx")
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, m.Codes)
		require.NotZero(t, m.row())
		var file onnxpb.ModelProto
		require.NoError(t, proto.Unmarshal(m.onnx, &file))
		require.Equal(t, file.GetGraph().GetOutput()[0].GetName(), m.output)
	})
}

func BenchmarkFill(b *testing.B) {
	m := made.parsed(golden()[1], b)
	samples, calls := reads()
	var r read
	r.set(samples[0], &calls[0])
	require.True(b, m.form.prepare(&r, &calls[0]))
	into := make([]float32, m.row())
	_, rows := m.form.plan(nil, &r, r.places(nil, m.Motifs))
	require.NotEmpty(b, rows)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.form.fill(into, &r, &rows[i%len(rows)])
	}
}
