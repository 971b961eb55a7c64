package folder

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/ingest"
)

// manyReads is a BAM file of some million bases: those of Dorado's file, over and over, each
// time twenty in one.
func manyReads(b *testing.B, path string) {
	b.Helper()
	file, err := os.ReadFile("../../basecall/input/testdata/dorado.bam")
	require.NoError(b, err)
	in, err := bam.NewReader(bytes.NewReader(file), 1)
	require.NoError(b, err)
	var all []*sam.Record
	for {
		r, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(b, err)
		all = append(all, r)
	}
	out, err := os.Create(path)
	require.NoError(b, err)
	defer out.Close()
	w, err := bam.NewWriter(out, in.Header(), 1)
	require.NoError(b, err)
	for i := range 1500 {
		r := *all[0]
		r.Name = all[i%len(all)].Name + string(rune('a'+i/len(all)%26)) + string(rune('a'+i/len(all)/26))
		var seq, qual []byte
		for k := range 20 {
			from := all[(i+k)%len(all)]
			seq, qual = append(seq, from.Seq.Expand()...), append(qual, from.Qual...)
		}
		r.Seq, r.Qual, r.AuxFields = sam.NewSeq(seq), qual[:len(seq)], all[0].AuxFields[:8]
		require.NoError(b, w.Write(&r))
	}
	require.NoError(b, w.Close())
}

// BenchmarkPackedReads is a BAM file on one core, from its bytes to records that are ready to
// be sent.
func BenchmarkPackedReads(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.bam")
	manyReads(b, path)
	info, err := os.Stat(path)
	require.NoError(b, err)
	naming := ingest.Naming{}
	bases, size := 0, 0
	for b.Loop() {
		g, err := input.OpenGrowing(path, info.Size(), cram.Options{})
		require.NoError(b, err)
		bases, size = 0, 0
		for {
			r, err := g.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(b, err)
			run, err := naming.Describe(r)
			require.NoError(b, err)
			packed, err := naming.Pack(run, r)
			require.NoError(b, err)
			bases += len(r.Sequence)
			size += packed.Size()
		}
		require.NoError(b, g.Close())
	}
	b.ReportMetric(float64(bases)*float64(b.N)/b.Elapsed().Seconds(), "bases/s")
	b.ReportMetric(float64(size)/float64(bases), "B/base")
}
