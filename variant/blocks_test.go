package variant_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
)

// surveyed is what a region with the segments says of the whole contig but rows.
func surveyed(t *testing.T, ploidy variant.Ploidy, s *sample, segments []*streampb.Segment, rows []variant.Span) variant.Survey {
	t.Helper()
	r, err := variant.NewRegion(s.contig, 0, variant.Config{Ploidy: ploidy})
	require.NoError(t, err)
	apply(t, r, segments...)
	cfg := variant.SurveyConfig{Blocks: true, Callable: true}
	within := []variant.Span{{Start: 0, End: len(s.contig.Seq)}}
	found := r.Survey(cfg, within, rows)
	if ploidy == variant.Haploid {
		finalize(t, r)
	}
	require.Equal(t, found, r.Survey(cfg, within, rows), "calling changes what is told of other places")
	return found
}

// Blocks are without a gap but for the rows, stay within a band, and depend on the
// set of segments only.
func TestSurveyPartitionsTheContig(t *testing.T) {
	s := newSample(t, 31, 6000)
	segments := append(s.segments(t, 30, 1500, 1000, 4000), s.segments(t, 3, 1000, 3900, 5000)...)
	rows := []variant.Span{{Start: 2000, End: 2004}, {Start: 2500, End: 2501}, {Start: 5999, End: 6000}}
	found := surveyed(t, variant.Haploid, s, segments, rows)
	at := 0
	for i, b := range found.Blocks {
		for len(rows) > 0 && rows[0].Start == at {
			at = rows[0].End
			rows = rows[1:]
		}
		require.Equal(t, at, b.Start)
		at = b.End
		require.LessOrEqual(t, b.MinDepth, b.Depth)
		require.Equal(t, b.Depth == 0, b.MinDepth == 0, "covered and not covered are apart")
		require.Equal(t, 0, slices.Min(b.Likelihoods))
		if i > 0 && found.Blocks[i-1].End == b.Start && (found.Blocks[i-1].Depth == 0) == (b.Depth == 0) && found.Blocks[i-1].NoCall() == b.NoCall() {
			require.NotEqual(t, min(50, found.Blocks[i-1].Quality)/10, min(50, b.Quality)/10, "blocks of one band are one")
		}
		require.Len(t, b.Likelihoods, 2)
	}
	require.Equal(t, []variant.Span{{Start: 5999, End: 6000}}, rows)
	require.Equal(t, 5999, at)

	slices.Reverse(segments)
	require.Equal(t, found, surveyed(t, variant.Haploid, s, append(segments, segments[0]), []variant.Span{{Start: 2000, End: 2004}, {Start: 2500, End: 2501}, {Start: 5999, End: 6000}}))
}

// qualityAt is the quality of the block over a position.
func qualityAt(t *testing.T, s variant.Survey, pos int) int {
	t.Helper()
	for _, b := range s.Blocks {
		if b.Start <= pos && pos < b.End {
			return b.Quality
		}
	}
	require.FailNow(t, "no block", "%d", pos)
	return 0
}

// More reads make surer, reads that disagree less sure, and where nothing lies
// nothing is sure.
func TestSurveyQuality(t *testing.T) {
	quality := func(depth int, disagree float64) int {
		s := newSample(t, 32, 3000)
		s.gap = 0
		s.systematic = map[int]float64{1500: disagree}
		return qualityAt(t, surveyed(t, variant.Diploid, s, s.segments(t, depth, 1990, 500, 2500), nil), 1500)
	}
	few, many, doubtful, half := quality(4, 0), quality(24, 0), quality(24, 0.3), quality(24, 1)
	require.Greater(t, few, 0)
	require.Greater(t, many, few+10)
	require.Less(t, doubtful, many)
	require.Zero(t, half)
	s := newSample(t, 32, 3000)
	require.Zero(t, qualityAt(t, surveyed(t, variant.Haploid, s, nil, nil), 1500))
}

func TestCallable(t *testing.T) {
	s := newSample(t, 33, 6000)
	copy(s.contig.Seq[200:], "NNNN")
	segments := s.segments(t, 8, 990, 4500, 5500)
	for _, low := range segments {
		low.MappingQuality = 1
	}
	segments = append(segments, s.segments(t, 12, 1990, 1000, 3000)...) // enough
	segments = append(segments, s.segments(t, 3, 990, 3500, 4500)...)   // too few
	segments = append(segments, s.segments(t, 7, 390, 5100, 5500)...)   // enough, but as many map badly
	names := make(map[string]string)
	at := 0
	for _, c := range surveyed(t, variant.Haploid, s, segments, nil).Callable {
		require.Equal(t, at, c.Start, "spans leave no gap")
		at = c.End
		for _, pos := range []int{100, 202, 2000, 4000, 4800, 5300, 5900} {
			if c.Start <= pos && pos < c.End {
				names[fmt.Sprint(pos)] = c.Callability.String()
			}
		}
	}
	require.Equal(t, len(s.contig.Seq), at)
	require.Equal(t, map[string]string{
		"100": "NO_COVERAGE", "202": "N", "2000": "CALLABLE", "4000": "LOW_DEPTH", "4800": "LOW_MAPPING_QUALITY", "5300": "LOW_MAPPING_QUALITY", "5900": "NO_COVERAGE",
	}, names)
}

// goldenRows are blocks around the golden calls, of regions of eight bases, the
// first of which ends within a record of two calls.
func goldenRows(t *testing.T, allele string) []byte {
	t.Helper()
	g, err := genome.Read(strings.NewReader(goldenReference))
	require.NoError(t, err)
	header := variant.Header(g.Contigs, "s1", variant.Config{})
	variant.DeclareBlocks(header, allele)
	var b bytes.Buffer
	w, err := vcf.NewWriter(&b, header)
	require.NoError(t, err)
	rows := variant.NewRows(allele, w.Write)
	block := func(start, end, depth int, pl ...int) variant.Block {
		return variant.Block{Span: variant.Span{Start: start, End: end}, Depth: depth, MinDepth: max(0, depth-2), Quality: pl[1], Likelihoods: pl}
	}
	var calls []*streampb.Call
	for _, c := range goldenCalls() {
		if c.Pos != 14 { // haploid within a diploid contig
			calls = append(calls, c)
		}
	}
	one, two := g.Contigs[0], g.Contigs[1]
	// Regions end at 2 (within the first record), 8 and 20.
	require.NoError(t, rows.Add(one, 2, calls[:1], nil))
	require.NoError(t, rows.Add(one, 8, calls[1:4], []variant.Block{block(3, 4, 20, 0, 40, 400), block(5, 7, 22, 0, 45, 450)}))
	require.NoError(t, rows.Add(one, 20, calls[4:7], []variant.Block{block(9, 11, 30, 0, 60, 600), block(12, 18, 0, 0, 0, 0), block(18, 20, 3, 0, 9, 90)}))
	require.NoError(t, rows.Add(two, 3, calls[7:], []variant.Block{block(0, 1, 9, 0, 70), block(2, 3, 9, 0, 70)}))
	require.NoError(t, rows.Close())
	require.NoError(t, w.Flush())
	return b.Bytes()
}

func TestGVCFGolden(t *testing.T) {
	golden := filepath.Join("testdata", "calls.g.vcf")
	got := goldenRows(t, variant.AnyAllele)
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(string(want), "<*>", "<NON_REF>"), "ALT=<ID=*", "ALT=<ID=NON_REF"), string(goldenRows(t, variant.NonReference)))
}

// Rows don't overlap, leave no position out but those that no region reported,
// and have values for the symbolic allele.
func TestGVCFByBcftoolsAndPysam(t *testing.T) {
	tool := bcftools(t)
	file := filepath.Join("testdata", "calls.g.vcf")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), tool, "query", "-f", "%CHROM %POS0 %END [%GT %AD %PL]\n", file)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Empty(t, stderr.String())
	require.Equal(t, `one 0 3 2|1 11,17,17,0 180,90,160,90,0,160,211,231,231,321
one 3 4 0/0 . 0,40,400
one 4 5 1|0 11,17,2 90,0,70,101,115,205
one 5 7 0/0 . 0,45,450
one 7 8 0/1 11,17,2 90,0,70,101,115,205
one 8 9 1/2 11,17,17,0 180,90,160,90,0,160,211,231,231,321
one 9 11 0/0 . 0,60,600
one 11 12 1/1 11,17,2 90,70,0,101,185,205
one 12 18 ./. . 0,0,0
one 18 20 0/0 . 0,9,90
two 0 1 0 . 0,70
two 1 2 1 0,0,0 .
two 2 3 0 . 0,70
`, string(out))
	interpreter := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	const script = `
import sys, pysam
for r in pysam.VariantFile(sys.argv[1]):
    s = r.samples[0]
    n = len(r.alleles)
    assert s.get("PL") is None or len(s["PL"]) == (n if len(s["GT"]) == 1 else n * (n + 1) // 2), r
    assert "AD" not in s or len(s["AD"]) == n and len(s["AF"]) == n - 1, r
    assert r.alts[-1] == "<*>" and (r.stop > r.pos - 1), r
`
	out, err = exec.CommandContext(t.Context(), interpreter, "-c", script, file).CombinedOutput()
	require.NoError(t, err, string(out))
}
