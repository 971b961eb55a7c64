package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modbase/record"
)

// TestBasecallModifiedBases: reads have tags that are true of them, in BAM, aligned or cut, and in FASTQ the same ones.
func TestBasecallModifiedBases(t *testing.T) {
	const model = "../../modbase/network/testdata/dna_r9.4.1_made.onnx"
	common := []string{"basecall", "--device", "cpu", "--model", "r9.4-fast", "--to", "12s", "--modified-bases", model}
	call := func(args ...string) []byte {
		t.Helper()
		out, err := poreModel(t, append(append(common, args...), "../../testdata/lambda/reads.pod5")...)
		require.NoError(t, err)
		return []byte(out)
	}
	mmTags := make(map[string]string)
	reader, err := hts.NewReader(bytes.NewReader(call("--format", "bam", "--ref", "../../testdata/lambda/reference.fa")), 1)
	require.NoError(t, err)
	for {
		rec, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		tags, err := record.Tags(rec.AuxFields)
		require.NoError(t, err)
		require.NotNil(t, tags, rec.Name)
		require.NoError(t, tags.Check(record.Sequence(rec)))
		require.NotEmpty(t, tags.ML())
		if rec.Flags&(sam.Secondary|sam.Supplementary) == 0 {
			mmTags[rec.Name] = tags.MM()
		}
	}
	require.NotEmpty(t, mmTags)
	titles := 0
	for line := range strings.Lines(string(call())) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "@"), "\t"); ok && strings.HasPrefix(line, "@") {
			titles++
			assert.Contains(t, rest, "\tMM:Z:"+mmTags[name]+"\tML:B:C,")
		}
	}
	assert.Equal(t, len(mmTags), titles)

	// What a simulated device recorded is the basecaller's: the model for modified bases runs on the CPU.
	scores := filepath.Join(t.TempDir(), "scores")
	want := call("--record-scores", scores)
	again, err := poreModel(t, "basecall", "--device", "sim:1ms:16:"+scores, "--model", "r9.4-fast", "--to", "12s", "--modified-bases", model, "../../testdata/lambda/reads.pod5")
	require.NoError(t, err)
	assert.Equal(t, string(want), again)

	// Reads with and without modified bases are not mixed.
	broken := filepath.Join(t.TempDir(), "broken.sam")
	require.NoError(t, os.WriteFile(broken, call("--format", "sam"), 0o600))
	_, err = poreModel(t, "basecall", "--device", "cpu", "--model", "r9.4-fast", "--to", "12s", "--format", "sam", "--resume-from", broken, "../../testdata/lambda/reads.pod5")
	require.ErrorContains(t, err, "called by dna_r9.4.1_made, now they are by no model: give --modified-bases as it was")

	other := filepath.Join(t.TempDir(), "dna_r10.4.1_made.onnx")
	data, err := os.ReadFile(model)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other, data, 0o600))
	for _, tt := range []struct{ models, want string }{
		{other, "is for r10.4.1, and basecalling model r9.4-fast for r9.4"},
		{model + "," + model, "both call m"},
		{"../../models/r9.4-fast/model.onnx", "no ONNX network of Remora's"},
		{"nowhere.onnx", "no such file"},
	} {
		_, err := poreModel(t, "basecall", "--device", "cpu", "--model", "r9.4-fast", "--to", "0s", "--modified-bases", tt.models, "../../testdata/lambda/reads.pod5")
		require.ErrorContains(t, err, tt.want)
	}
}

// TestModelKnowsModifiedBases: models of modified bases are listed, checked and tried.
func TestModelKnowsModifiedBases(t *testing.T) {
	const folder = "../../modbase/network/testdata"
	out, err := poreModel(t, "model", "ls", folder)
	require.NoError(t, err)
	assert.Contains(t, out, "modified-base m at CG,0")
	unusable := filepath.Join(t.TempDir(), "x.onnx")
	data, err := os.ReadFile(folder + "/dna_r9.4.1_made.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(unusable, data, 0o600))
	part := filepath.Join(filepath.Dir(unusable), "dna_r9.4.1_part.onnx")
	require.NoError(t, os.WriteFile(part, data[:len(data)/2], 0o600))
	out, err = poreModel(t, "model", "ls", filepath.Dir(unusable), folder)
	require.NoError(t, err)
	assert.Contains(t, out, "modified-base m at CG,0")
	assert.Contains(t, out, unusable+" can't be used: its name doesn't say which pore")
	assert.Equal(t, 1, strings.Count(out, unusable))
	assert.Contains(t, out, part+" can't be used: it is no ONNX file, or a part of one")
	out, err = poreModel(t, "model", "check", folder+"/dna_r9.4.1_made.onnx")
	require.NoError(t, err)
	assert.Contains(t, out, "modified-base model dna_r9.4.1_made is whole")
	out, err = poreModel(t, "model", "verify", "--device", "cpu", folder+"/dna_r9.4.1_made.onnx")
	require.NoError(t, err)
	assert.Contains(t, out, "bases twice, alike; it calls m at CG,0")
}

// doradoFolder is a folder for modified bases as Dorado has it, with random weights: testdata/modified.py made it.
const doradoFolder = "testdata/dna_r9.4.1_e8_fast@v3.4_5mCG@v0"

// TestModelOfDoradoForModifiedBases: a folder of Dorado's is listed, checked, tried, converted and used, as it is and converted, alike.
func TestModelOfDoradoForModifiedBases(t *testing.T) {
	out, err := poreModel(t, "model", "ls", "testdata")
	require.NoError(t, err)
	assert.Contains(t, out, "modified-base m at CG,0")
	assert.NotContains(t, out, "can't be used")
	out, err = poreModel(t, "model", "check", doradoFolder)
	require.NoError(t, err)
	assert.Contains(t, out, "is whole")
	out, err = poreModel(t, "model", "verify", "--device", "cpu", doradoFolder)
	require.NoError(t, err)
	assert.Contains(t, out, "bases twice, alike; it calls m at CG,0")
	dir := t.TempDir()
	file := filepath.Join(dir, "x.onnx")
	_, err = poreModel(t, "model", "convert", "--out", filepath.Join(dir, "x"), doradoFolder)
	require.ErrorContains(t, err, "becomes a file NAME.onnx")
	out, err = poreModel(t, "model", "convert", "--out", file, "--basecaller", "any", doradoFolder)
	require.NoError(t, err)
	assert.Contains(t, out, "modified-base m at CG,0")
	_, err = poreModel(t, "model", "convert", "--out", file, doradoFolder)
	require.ErrorContains(t, err, "it is there already")
	follows := filepath.Join(dir, "follows.onnx")
	_, err = poreModel(t, "model", "convert", "--out", follows, "--basecaller", "r9.4-fast", "--name", "mine", doradoFolder)
	require.NoError(t, err)

	call := func(model string) (string, error) {
		return poreModel(t, "basecall", "--device", "cpu", "--model", "r9.4-fast", "--to", "12s", "--modified-bases", model, "../../testdata/lambda/reads.pod5")
	}
	want, err := call(file)
	require.NoError(t, err)
	assert.Contains(t, want, "\tMM:Z:C+m?,")
	have, err := call(follows)
	require.NoError(t, err)
	assert.Equal(t, want, have)
	_, err = call(doradoFolder)
	require.ErrorContains(t, err, "is for reads that dna_r9.4.1_e8_fast@v3.4 calls, and basecalling model r9.4-fast is another")
	_, err = poreModel(t, "basecall", "--device", "cpu", "--model", doradoFolder, "../../testdata/lambda/reads.pod5")
	require.ErrorContains(t, err, "for --modified-bases, not one that basecalls")
}

// TestModifiedBasesWithoutNumbers: a network whose scores are no numbers keeps no read from being written; its tags name no base.
func TestModifiedBasesWithoutNumbers(t *testing.T) {
	data, err := os.ReadFile("../../modbase/network/testdata/dna_r9.4.1_made.onnx")
	require.NoError(t, err)
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(data, &model))
	broken := 0
	for _, c := range model.GetGraph().GetInitializer() {
		for i := range c.FloatData {
			c.FloatData[i] = float32(math.NaN())
			broken++
		}
	}
	require.NotZero(t, broken)
	path := filepath.Join(t.TempDir(), "dna_r9.4.1_nan.onnx")
	data, err = proto.Marshal(&model)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	call := func(args ...string) string {
		out, err := poreModel(t, append(append([]string{"basecall", "--device", "cpu", "--model", "r9.4-fast", "--to", "12s"}, args...), "../../testdata/lambda/reads.pod5")...)
		require.NoError(t, err)
		return out
	}
	without, with := call(), call("--modified-bases", path)
	titles := 0
	for line := range strings.Lines(with) {
		if strings.HasPrefix(line, "@") && strings.Contains(line, "\t") {
			titles++
			assert.Contains(t, line, "\tMM:Z:C+m?;\t")
		}
	}
	assert.NotZero(t, titles)
	assert.Equal(t, strings.Count(without, "\n"), strings.Count(with, "\n"))
}
