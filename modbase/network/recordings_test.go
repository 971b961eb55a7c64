package network_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/modbase/network/convert"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// calledOf is what a record says that a read is called.
func calledOf(t *testing.T, rec *sam.Record, calibration signal.Calibration) *basecall.Called {
	t.Helper()
	number := func(tag string) int {
		switch v := rec.AuxFields.Get(sam.NewTag(tag)).Value().(type) {
		case uint8:
			return int(v)
		case uint16:
			return int(v)
		case int32:
			return int(v)
		case uint32:
			return int(v)
		}
		require.Fail(t, "no number", tag)
		return 0
	}
	moves, ok := rec.AuxFields.Get(sam.NewTag("mv")).Value().([]int8)
	require.True(t, ok)
	c := &basecall.Called{Stride: int(moves[0]), TrimmedSamples: number("ts"), NumSamples: number("ns")}
	for _, move := range moves[1:] {
		c.Moves = append(c.Moves, byte(move))
	}
	c.Sequence, c.Qualities = rec.Seq.Expand(), slices.Clone(rec.Qual)
	if rec.Flags&sam.Reverse != 0 {
		slices.Reverse(c.Qualities)
		for i, j := 0, len(c.Sequence)-1; i <= j; i, j = i+1, j-1 {
			c.Sequence[i], c.Sequence[j] = complemented(c.Sequence[j]), complemented(c.Sequence[i])
		}
	}
	// In picoamperes.
	c.Shift = float(rec, "sm")/calibration.Scale - calibration.Offset
	c.Scale = float(rec, "sd") / calibration.Scale
	return c
}

func float(rec *sam.Record, tag string) float32 {
	v, _ := rec.AuxFields.Get(sam.NewTag(tag)).Value().(float32)
	return v
}

func complemented(b byte) byte {
	return map[byte]byte{'A': 'T', 'C': 'G', 'G': 'C', 'T': 'A'}[b]
}

// TestCanonicalReads: of reads of R10.4.1 without modifications, with the bases and moves that they came with, as many CpGs are called
// methylated as by Remora and DeepMod2 themselves.
func TestCanonicalReads(t *testing.T) {
	file, err := signal.Open(testenv.Recordings(t, "r10/can_reads.pod5"))
	require.NoError(t, err)
	defer file.Close()
	reads := make(map[string]*signal.Read)
	for {
		read, err := file.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		reads[read.ID] = read
	}
	folder := testenv.Recordings(t, "modbase/models")
	for _, tt := range []struct {
		model string
		want  float64
	}{
		{"dna_r10.4.1_e8.2_fast_v3.5.1_5mc_CG_v0.onnx", 0.065},
		{"dna_r10.4.1_e8.2_hac_v3.5.1_5mc_CG_v1.onnx", 0.022},
		{"dna_r10.4.1_e8.2_sup_v3.5.1_5mc_CG_v1.onnx", 0.015},
		{"deepmod2-transformer-R10.4.1_4kHz_v4.1.pt", 0.049},
	} {
		t.Run(tt.model, func(t *testing.T) {
			path := filepath.Join(folder, tt.model)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if filepath.Ext(path) != ".onnx" {
				data, err = convert.Convert(path, convert.Options{})
				require.NoError(t, err)
			}
			m, err := network.ParseModel(data, path)
			require.NoError(t, err)
			c, err := network.New([]*network.Model{m}, network.Config{Device: "cpu", Sessions: 1})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			bam, err := os.Open(testenv.Recordings(t, "r10/can_mappings.bam"))
			require.NoError(t, err)
			defer bam.Close()
			reader, err := hts.NewReader(bam, 1)
			require.NoError(t, err)
			sites, methylated := 0, 0
			for {
				rec, err := reader.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.Contains(t, reads, rec.Name)
				called := calledOf(t, rec, reads[rec.Name].Calibration)
				tags, err := c.Call(t.Context(), reads[rec.Name].Samples, called)
				require.NoError(t, err)
				require.NoError(t, tags.Check(record.Sequence(rec)))
				for call := range tags.Calls(modbase.Sequence{Bases: called.Sequence}) {
					sites++
					if call.Probability >= 128 {
						methylated++
					}
				}
			}
			t.Logf("%d CpGs, %.4f of them methylated", sites, float64(methylated)/float64(sites))
			require.Greater(t, sites, 800)
			assert.InDelta(t, tt.want, float64(methylated)/float64(sites), 0.002)
		})
	}
}
