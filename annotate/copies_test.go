package annotate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/vrs"
)

var insertedPattern = regexp.MustCompile(`^(\d+)(?:_(\d+))?(ins|delins)(.*)$`)

// withCopies is the molecule that an insertion or a delins along seq denotes, whose pieces may be ranges.
func withCopies(t testing.TB, seq, text string) string {
	t.Helper()
	m := insertedPattern.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	from, _ := strconv.Atoi(m[1])
	to := from
	if m[2] != "" {
		to, _ = strconv.Atoi(m[2])
	}
	if m[3] == "ins" {
		to = from
	} else {
		from--
	}
	var alt strings.Builder
	for part := range strings.SplitSeq(strings.Trim(m[4], "[]"), ";") {
		span, inverted := strings.CutSuffix(part, "inv")
		if a, b, ok := strings.Cut(span, "_"); ok {
			first, err := strconv.Atoi(a)
			require.NoError(t, err, text)
			last, err := strconv.Atoi(b)
			require.NoError(t, err, text)
			part = seq[first-1 : last]
			if inverted {
				part = otherStrand(part)
			}
		}
		alt.WriteString(part)
	}
	return seq[:from] + alt.String() + seq[to:]
}

// checkCopy holds one random description that copies a range to the molecule that it means.
func checkCopy(t testing.TB, seed uint64) (kept bool) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 50))
	const length = 400
	letters := []string{"ACGT", "AC", "ACGT", "AAAT"}[rnd.IntN(4)]
	var b strings.Builder
	for b.Len() < length {
		if unit := b.String(); len(unit) > 70 && rnd.IntN(60) == 0 { // what was there before comes again
			at := rnd.IntN(len(unit) - 60)
			b.WriteString(unit[at : at+10+rnd.IntN(50)])
		}
		b.WriteByte(letters[rnd.IntN(len(letters))])
	}
	seq := b.String()[:length]
	g := readGenome(t, ">c\n"+seq+"\n")
	var models []string
	for _, strand := range []string{"+", "-"} {
		models = append(models, "c mRNA 11 390 "+strand+" . ID=T"+strand, "c exon 11 150 "+strand+" . Parent=T"+strand,
			"c exon 201 390 "+strand+" . Parent=T"+strand, "c CDS 101 150 "+strand+" 0 Parent=T"+strand, "c CDS 201 300 "+strand+" 1 Parent=T"+strand)
	}
	m, err := ReadModel(strings.NewReader(rows(models...)), g)
	require.NoError(t, err)
	n := NewNormalizer(New(g, m), ProteinStyle{})

	from := rnd.IntN(length - 120)
	to := from + longCopy - 5 + rnd.IntN(120-longCopy)
	at := 100 + rnd.IntN(length-200)
	what := fmt.Sprintf("%d_%d", from+1, to)
	if rnd.IntN(2) == 0 {
		what += "inv"
	}
	switch rnd.IntN(4) {
	case 0:
		what = fmt.Sprintf("[%s;%s]", what, seq[:1+rnd.IntN(3)])
	case 1:
		what = fmt.Sprintf("[GAT;%s;%d_%d;AC]", what, 1, 1+longCopy+rnd.IntN(5))
	}
	text := fmt.Sprintf("%d_%dins%s", at, at+1, what)
	if rnd.IntN(2) == 0 {
		text = fmt.Sprintf("%d_%ddelins%s", at, at+rnd.IntN(8), what)
		text = strings.Replace(text, fmt.Sprintf("%d_%ddel", at, at), fmt.Sprintf("%ddel", at), 1)
	}
	want := withCopies(t, seq, text)
	got, err := n.Normalize("c:g." + text)
	require.NoError(t, err, "%s on %s", text, seq)
	require.Len(t, got.Loci, 1, "%s on %s", text, seq)
	l := got.Loci[0]
	require.Equal(t, want, seq[:l.Pos-1]+l.Alt+seq[l.Pos-1+len(l.Ref):], "%v of %s on %s", l, text, seq)
	again, err := n.Normalize(got.Description)
	require.NoError(t, err, "%s of %s on %s", got.Description, text, seq)
	require.Equal(t, got, again, "%s of %s on %s", got.Description, text, seq)
	kept = strings.Count(got.Description, "_") > 1
	_, change, _ := strings.Cut(got.Description, ".")
	if insertedPattern.MatchString(change) && !strings.Contains(change, "dup") {
		require.Equal(t, want, withCopies(t, seq, change), "%s of %s on %s", change, text, seq)
	}
	// The same by the genes of both strands, on the contig.
	e := fmt.Sprintf("c:g.%d_%ddelins%s", l.Pos, l.Pos+len(l.Ref)-1, l.Alt)
	spelt, err := n.Normalize(e)
	require.NoError(t, err, e)
	require.Equal(t, spelt.Loci, got.Loci, "%s of %s on %s", got.Description, text, seq)
	for _, strand := range []string{"+", "-"} {
		on := n.numberingOf(t, "c(T"+strand+"):c.")
		a, z := on.appendPosition(nil, from), on.appendPosition(nil, to-1)
		p, q := on.appendPosition(nil, at-1), on.appendPosition(nil, at)
		if strand == "-" {
			a, z, p, q = z, a, q, p
		}
		in := fmt.Sprintf("c(T%s):c.%s_%sins%s_%s", strand, p, q, a, z)
		got, err := n.Normalize(in)
		require.NoError(t, err, "%s on %s", in, seq)
		require.Equal(t, []Locus{locusOf(seq, at, seq[from:to])}, got.Loci, "%s on %s", in, seq)
		again, err := n.Normalize(got.Description)
		require.NoError(t, err, "%s of %s on %s", got.Description, in, seq)
		require.Equal(t, got, again, "%s of %s on %s", got.Description, in, seq)
	}
	return kept
}

// locusOf is the insertion of bases behind base at of seq, as VCF has it.
func locusOf(seq string, at int, bases string) Locus {
	e := vrs.Edit{Start: at, Alt: bases}.Normal([]byte(seq))
	return Locus{Contig: "c", Pos: e.Start + 1, Ref: e.Ref, Alt: e.Alt}
}

// numberingOf is the numbering of descriptions with that prefix.
func (n *Normalizer) numberingOf(t testing.TB, prefix string) *numbering {
	t.Helper()
	d, err := hgvs.Parse(prefix + "1=")
	require.NoError(t, err)
	on, err := n.numbering(d)
	require.NoError(t, err)
	return on
}

// TestLongCopiesStayRanges: what a description copies is given by its range, in normal form as in the input, on both strands,
// and means the same molecule.
func TestLongCopiesStayRanges(t *testing.T) {
	kept := 0
	for seed := range uint64(1_500) {
		if checkCopy(t, seed) {
			kept++
		}
	}
	require.Greater(t, kept, 750)
}

// TestLongCopiesOfRuns: a run of one base has its middle in as many places as it has bases, and takes no longer for that.
func TestLongCopiesOfRuns(t *testing.T) {
	g := readGenome(t, ">c\nACGTACGTAC"+strings.Repeat("A", 300_000)+"GCGTC\n")
	n := NewNormalizer(New(g, nil), ProteinStyle{})
	for in, want := range map[string]string{
		"c:g.7_8ins1001_201000":       "c:g.7_8ins1001_201000",
		"c:g.6_7ins1001_201000inv":    "c:g.6_7ins1001_201000inv",
		"c:g.7_8ins[1001_201000;GCG]": "",
	} {
		got, err := n.Normalize(in)
		require.NoError(t, err, in)
		if want != "" {
			require.Equal(t, want, got.Description, in)
		}
		again, err := n.Normalize(got.Description)
		require.NoError(t, err, in)
		require.True(t, got.Description == again.Description && got.Genomic == again.Genomic, in)
	}
}

func FuzzCopies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkCopy(t, seed) })
}
