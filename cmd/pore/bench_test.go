package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/bench"
)

const lambdaReads = "../../testdata/lambda/reads.pod5"

func TestBenchBasecallSweeps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	out, err := poreModel(t, "bench", "basecall", "--device", "cpu", "--samples", "1", "--rounds", "1", "--sessions", "2", "--batch", "4",
		"--scaling=false", "--sweep-batches", "2,4", "--json", lambdaReads)
	require.NoError(t, err)
	var r basecallReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, 4, r.All.Batch)
	assert.Nil(t, r.One)
	assert.Equal(t, "not on a GPU", r.NoCounters)
	require.Len(t, r.Sweep, 2)
	for i, batch := range []int{2, 4} {
		step := r.Sweep[i]
		assert.Equal(t, batch, step.Batch)
		require.NotNil(t, step.Throughput)
		assert.Equal(t, batch, step.Throughput.Batch)
		assert.Nil(t, step.Throughput.GPU)
		assert.Positive(t, step.Throughput.BaseRate)
	}
}

func TestPrintStep(t *testing.T) {
	known := func(v float64) *float64 { return &v }
	full := bench.Throughput{ReadRate: 9.1e6, EngineRate: 1e7, BareRate: 1.25e7, EngineOverBare: 0.8, BaseRate: 910_000}
	onGPU := full
	onGPU.GPU = &bench.GPUUsage{Utilisation: known(0.913), Watts: known(287.4), JoulesPerMegabase: known(315.82)}
	partly := full
	partly.GPU = &bench.GPUUsage{Watts: known(70)}
	var b bytes.Buffer
	for _, s := range []bench.Step{
		{Batch: 64, Throughput: &full}, {Batch: 128, Throughput: &onGPU}, {Batch: 256, Throughput: &partly}, {Batch: 512, OutOfMemory: "out of memory"},
	} {
		printStep(&b, s)
	}
	assert.Equal(t, `|    64 |          9100000 |          10000000 |                12500000 | 0.800 |    0.910 |     - |     - |       - |
|   128 |          9100000 |          10000000 |                12500000 | 0.800 |    0.910 |  91 % |   287 |   315.8 |
|   256 |          9100000 |          10000000 |                12500000 | 0.800 |    0.910 |     - |    70 |       - |
|   512 | not enough memory on the device: out of memory |
`, b.String())
}

func TestBenchAgreement(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	args := []string{"bench", "agreement", "--device", "cpu", "--samples", "1", lambdaReads}
	out, err := poreModel(t, append(args, "--least-identity", "0.99", "--least-identity-int8", "0.9", "--least-identity-scores", "0.98")...)
	require.NoError(t, err)
	assert.Regexp(t, `^r9.4-fast, compared with the CPU in fp32:\n\n\| device .*\n.*\n\| cpu    \| fp32      \| int8   \|     1 \| .* \|\n\| cpu    \| fp16      \| fp32   \|     1 \| .* \|\n\| cpu    \| int8      \| fp32   \|     1 \| .* \|\n$`, out)
}

func TestAgreementBounds(t *testing.T) {
	bounds := agreementBounds{identical: 1, identity: 0.9995, int8: 0.98, scores: 0.997}
	same := bench.Agreement{Device: "cuda:0", Precision: "fp32", Scores: "fp32", Reads: 4, Identical: 4, Columns: 10_000, Identity: 1}
	other := bench.Agreement{Device: "cuda:0", Precision: "fp32", Scores: "fp32", Reads: 4, Identical: 3, Edits: 1, Columns: 10_000, Identity: 0.9999, Different: []string{"r3"}}
	near := bench.Agreement{Device: "cuda:0", Precision: "fp16", Reads: 4, Edits: 5, Columns: 10_000, Identity: 0.9995, Different: []string{"r0"}}
	far := bench.Agreement{Device: "cuda:0", Precision: "fp16", Reads: 4, Edits: 6, Columns: 10_000, Identity: 0.9994, Different: []string{"r0"}}
	whole := bench.Agreement{Device: "cpu", Precision: "int8", Reads: 4, Edits: 200, Columns: 10_000, Identity: 0.98}
	worse := bench.Agreement{Device: "cpu", Precision: "int8", Reads: 4, Edits: 201, Columns: 10_000, Identity: 0.9799}
	rounded := far
	rounded.Precision, rounded.Scores, rounded.Edits, rounded.Identity = "fp32", "int8", 31, 0.9969
	require.EqualError(t, bounds.check(rounded), "cuda:0 in fp32 with scores in int8 calls otherwise than the CPU in fp32: identity is 99.6900 % and not 99.7000 % (31 edits in 10000 columns)")
	require.NoError(t, bounds.check(whole))
	require.EqualError(t, bounds.check(worse), "cpu in int8 calls otherwise than the CPU in fp32: identity is 97.9900 % and not 98.0000 % (201 edits in 10000 columns)")
	require.NoError(t, bounds.check(same))
	require.NoError(t, bounds.check(near))
	require.EqualError(t, bounds.check(other), "cuda:0 in fp32 calls otherwise than the CPU in fp32: 3 of 4 reads are identical, 75.0000 % and not 100.0000 % (1 edits in 10000 columns), for example not r3")
	require.EqualError(t, bounds.check(far), "cuda:0 in fp16 calls otherwise than the CPU in fp32: identity is 99.9400 % and not 99.9500 % (6 edits in 10000 columns)")
	require.NoError(t, agreementBounds{identical: 0.75, identity: 0.9994}.check(other))
}
