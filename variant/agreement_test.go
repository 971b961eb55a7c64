package variant_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
)

// moody is a network that answers by the bits of an example: copies and zygosity contradict
// each other, and what is beside an allele, as often as not.
type moody struct{}

func (moody) Score(dst, examples []float32) ([]float32, error) {
	for ; len(examples) > 0; examples = examples[variant.ExampleSize:] {
		var bits uint64
		for _, x := range examples[:variant.ExampleSize] {
			bits = bits*31 + uint64(math.Float32bits(x))
		}
		rnd := rand.New(rand.NewPCG(bits, 1))
		for range 2 {
			var p [3]float64
			sum := 0.0
			for i := range p {
				p[i] = math.Exp(6 * rnd.NormFloat64())
				sum += p[i]
			}
			for _, x := range p {
				dst = append(dst, float32(max(-80, math.Log(x/sum))))
			}
		}
		for range variant.Scores - variant.ScoreLength {
			dst = append(dst, float32(-math.Log(variant.Scores-variant.ScoreLength)))
		}
	}
	return dst, nil
}

func (moody) Fingerprint() string { return "moody" }

// agrees holds GT, GQ and PL of a row to each other.
func agrees(t *testing.T, rec *vcf.Record, ploidy int) (noCall bool) {
	t.Helper()
	field := func(key string) string {
		i := slices.Index(rec.Format, key)
		require.GreaterOrEqual(t, i, 0, "%s of %s", key, line(rec))
		return rec.Samples[0][i]
	}
	var pl []int
	for _, text := range strings.Split(field("PL"), ",") {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		pl = append(pl, n)
	}
	gq, err := strconv.Atoi(field("GQ"))
	require.NoError(t, err)
	alleles := strings.FieldsFunc(field("GT"), func(r rune) bool { return r == '/' || r == '|' })
	require.Len(t, alleles, ploidy)
	require.Equal(t, 0, slices.Min(pl), line(rec))
	if alleles[0] == "." {
		require.Zero(t, gq, "a genotype that is not known has a quality: %s", line(rec))
		return true
	}
	var numbers []int
	for _, a := range alleles {
		n, err := strconv.Atoi(a)
		require.NoError(t, err)
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	at := numbers[0]
	if ploidy == 2 {
		at += numbers[1] * (numbers[1] + 1) / 2
	}
	require.Zero(t, pl[at], "another genotype is likelier: %s", line(rec))
	require.LessOrEqual(t, gq, slices.Min(slices.Delete(pl, at, at+1)), "surer than another genotype is unlikely: %s", line(rec))
	return false
}

// TestGenotypesAgreeWithLikelihoods: in records and in blocks, with and without the symbolic
// allele, the genotype is the likeliest, and its quality at most what sets it apart from the
// next; where some other allele explains the reads better and none is called, it is unknown.
func TestGenotypesAgreeWithLikelihoods(t *testing.T) {
	for _, tc := range []struct {
		ploidy  variant.Ploidy
		size    int
		network variant.Network
	}{
		{variant.Haploid, 1, nil},
		{variant.Haploid, 1, moody{}},
		{variant.Diploid, 2, &variant.DoseNetwork{}},
		{variant.Diploid, 2, moody{}},
		{variant.Mixture, 2, &variant.DoseNetwork{}},
		{variant.Mixture, 2, moody{}},
	} {
		records, unknown := 0, 0
		for seed := range uint64(3) {
			haplotypes, _ := diploid(t, seed)
			rnd := rand.New(rand.NewPCG(seed, 77))
			for h := range haplotypes {
				haplotypes[h].systematic = make(map[int]float64)
				for range 60 {
					haplotypes[h].systematic[rnd.IntN(12_000)] = rnd.Float64()
				}
			}
			r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: tc.ploidy, Network: tc.network})
			segments := reads(t, haplotypes, 20+int(seed)*20)
			for _, s := range segments {
				if s.GetStart() > 9500 && rnd.IntN(8) > 0 {
					continue // hardly covered
				}
				apply(t, r, s)
			}
			calls := finalize(t, r)
			for _, c := range calls {
				pl, own := c.GetPhredLikelihoods(), 0
				for _, a := range c.GetGenotype() {
					if a == 1 {
						own++
					}
				}
				require.Zero(t, pl[own], "%v", c)
				require.LessOrEqual(t, c.GetGenotypeQuality(), slices.Min(slices.Delete(slices.Clone(pl), own, own+1)), "%v", c)
			}
			for _, any := range []string{"", variant.AnyAllele} {
				rows := variant.NewRows(any, func(rec *vcf.Record) error {
					if slices.Contains(rec.Format, "PL") {
						records++
						if agrees(t, rec, tc.size) {
							unknown++
						}
					}
					return nil
				})
				var blocks []variant.Block
				if any != "" {
					blocks = r.Survey(variant.SurveyConfig{Blocks: true}, []variant.Span{{Start: 0, End: 12_000}}, spansOf(calls)).Blocks
				}
				require.NoError(t, rows.Add(haplotypes[0].contig, 12_000, slices.Clone(calls), blocks))
				require.NoError(t, rows.Close())
			}
		}
		require.Greater(t, records, 500, "ploidy %v", tc.ploidy)
		require.Positive(t, unknown, "ploidy %v: no block is unknown", tc.ploidy)
	}
}

// spansOf are the REF spans of calls that stand.
func spansOf(calls []*streampb.Call) []variant.Span {
	var spans []variant.Span
	for _, c := range calls {
		spans = append(spans, variant.Span{Start: int(c.GetPos()) - 1, End: int(c.GetPos()) - 1 + len(c.GetRef())})
	}
	return variant.Union(spans)
}

// TestReadsThatDisagreeAreNoReferenceGenotype: where all reads show another base and nothing is
// called, a block says that the genotype is not known and PL what the reads say.
func TestReadsThatDisagreeAreNoReferenceGenotype(t *testing.T) {
	s := newSample(t, 41, 3000)
	s.edits = []edit{{1500, 1, string(other(s.contig.Seq[1500]))}}
	for ploidy, want := range map[variant.Ploidy]string{variant.Haploid: ".", variant.Diploid: "./."} {
		found := surveyed(t, ploidy, s, s.segments(t, 24, 1990, 500, 2500), nil)
		var seen []string
		rows := variant.NewRows(variant.AnyAllele, func(rec *vcf.Record) error {
			end, _ := rec.Info.Get("END")
			if last, err := strconv.Atoi(end); err != nil || rec.Pos > 1501 || last < 1501 {
				return err
			}
			seen = append(seen, fmt.Sprintf("%d-%s %s", rec.Pos, end, strings.Join(rec.Samples[0][:2], " ")))
			require.NotEqual(t, "0", strings.Split(rec.Samples[0][4], ",")[0])
			return nil
		})
		require.NoError(t, rows.Add(s.contig, 3000, nil, found.Blocks))
		require.NoError(t, rows.Close())
		require.Equal(t, []string{"1501-1501 " + want + " 0"}, seen)
	}
}
