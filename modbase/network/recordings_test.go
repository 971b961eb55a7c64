package network

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modbase"
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
	c.Sequence = rec.Seq.Expand()
	if rec.Flags&sam.Reverse != 0 {
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
// methylated as by Remora itself.
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
		{"dna_r10.4.1_e8.2_fast_v3.5.1_5mc_CG_v0", 0.065},
		{"dna_r10.4.1_e8.2_hac_v3.5.1_5mc_CG_v1", 0.022},
		{"dna_r10.4.1_e8.2_sup_v3.5.1_5mc_CG_v1", 0.015},
	} {
		t.Run(tt.model, func(t *testing.T) {
			m, err := OpenModel(filepath.Join(folder, tt.model+".onnx"))
			require.NoError(t, err)
			c := open1(t, m)
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
