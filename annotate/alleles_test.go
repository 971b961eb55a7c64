package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// piece is a change of a molecule as the tests know it: bases [from,to) become alt. It shares no code with the engine.
type piece struct {
	from, to int
	alt      string
	text     string
}

// molecule applies changes that do not overlap to seq.
func molecule(seq string, list []piece) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b piece) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var b strings.Builder
	at := 0
	for _, x := range list {
		if x.from < at {
			panic(fmt.Sprintf("changes overlap: %v", list))
		}
		b.WriteString(seq[at:x.from])
		b.WriteString(x.alt)
		at = x.to
	}
	return b.String() + seq[at:]
}

func otherStrand(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return strings.NewReplacer("A", "T", "C", "G", "G", "C", "T", "A").Replace(string(b))
}

var partPattern = regexp.MustCompile(`^(\d+)(?:_(\d+))?(?:([ACGT])>([ACGT])|(delins|del|dup|inv|ins|=)([ACGT]*)|([ACGT]+)\[(\d+)\])$`)

// pieces reads what follows the coordinate type: positions that count along seq.
func pieces(seq, text string) ([]piece, error) {
	var list []piece
	for _, part := range strings.Split(strings.Trim(text, "[]"), ";") {
		if strings.HasSuffix(part, "]") || strings.Count(part, "[") > strings.Count(part, "]") {
			part = strings.TrimSuffix(part, "]") + "]"
		}
		m := partPattern.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%q of %q is not read", part, text)
		}
		first, _ := strconv.Atoi(m[1])
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		x := piece{from: first - 1, to: last, text: part}
		switch {
		case m[3] != "":
			if seq[first-1:first] != m[3] {
				return nil, fmt.Errorf("%q: the reference has %s", part, seq[first-1:first])
			}
			x.alt = m[4]
		case m[5] == "del":
		case m[5] == "delins":
			x.alt = m[6]
		case m[5] == "dup":
			x.from, x.to, x.alt = last, last, seq[first-1:last]
		case m[5] == "inv":
			x.alt = otherStrand(seq[first-1 : last])
		case m[5] == "ins":
			x.from, x.to, x.alt = first, first, m[6]
		case m[5] == "=":
			x.alt = seq[first-1 : last]
		default:
			n, _ := strconv.Atoi(m[8])
			x.alt = strings.Repeat(m[7], n)
			if m[2] == "" { // as many as follow each other
				for x.to = x.from; strings.HasPrefix(seq[x.to:], m[7]); x.to += len(m[7]) {
				}
			}
			if x.to-x.from < len(m[7]) || strings.ReplaceAll(seq[x.from:x.to], m[7], "") != "" {
				return nil, fmt.Errorf("%q: the reference has %s", part, seq[x.from:x.to])
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// describable draws changes of one molecule with their descriptions, none of which overlaps another.
func describable(rnd *rand.Rand, seq string, n int) []piece {
	bases := func(k int) string {
		b := make([]byte, k)
		for i := range b {
			if b[i] = "ACGT"[rnd.IntN(4)]; rnd.IntN(2) == 0 && i < len(seq) {
				b[i] = seq[rnd.IntN(len(seq))]
			}
		}
		return string(b)
	}
	var list []piece
	for at := 1 + rnd.IntN(6); len(list) < n && at+8 < len(seq); {
		first := at + 1
		last := first + rnd.IntN(4)
		ref := seq[first-1 : last]
		span := strconv.Itoa(first)
		if last > first {
			span += "_" + strconv.Itoa(last)
		}
		x := piece{from: first - 1, to: last}
		end := last
		switch rnd.IntN(11) {
		case 0:
			x.to, end = first, first
			for x.alt == "" || x.alt == seq[first-1:first] {
				x.alt = string("ACGT"[rnd.IntN(4)])
			}
			x.text = strconv.Itoa(first) + seq[first-1:first] + ">" + x.alt
		case 1, 2:
			x.text = span + "del"
		case 3:
			x.from, x.alt, x.text = last, ref, span+"dup"
		case 4:
			x.alt, x.text = otherStrand(ref), span+"inv"
		case 5:
			x.alt = bases(1 + rnd.IntN(4))
			x.from, x.to, end = first, first, first
			if rnd.IntN(2) == 0 { // a copy of the bases beside it
				x.alt = seq[first-1 : min(len(seq), first+rnd.IntN(3))]
			}
			x.text = fmt.Sprintf("%d_%dins%s", first, first+1, x.alt)
		case 6:
			x.alt = bases(1 + rnd.IntN(4))
			x.text = span + "delins" + x.alt
		case 7:
			copies := rnd.IntN(4)
			for x.to = x.from; strings.HasPrefix(seq[x.to:], ref); x.to += len(ref) {
			}
			end = x.to
			x.alt = strings.Repeat(ref, copies)
			x.text = fmt.Sprintf("%d%s[%d]", first, ref, copies)
		case 8: // copies of the unit in place of one: those behind it stay
			copies := rnd.IntN(4)
			if last == first { // one position is where a run begins
				last++
				ref += seq[first : first+1]
				span, x.to, end = fmt.Sprintf("%d_%d", first, last), last, last
			}
			x.alt, x.text = strings.Repeat(ref, copies), fmt.Sprintf("%s%s[%d]", span, ref, copies)
		case 9: // a copy of another place, perhaps in pieces, or inverted
			from := rnd.IntN(len(seq) - 8)
			to := from + 2 + rnd.IntN(6)
			x.alt, x.text = seq[from:to], fmt.Sprintf("%sdelins%d_%d", span, from+1, to)
			switch rnd.IntN(3) {
			case 0:
				x.alt, x.text = otherStrand(x.alt), x.text+"inv"
			case 1:
				x.alt, x.text = x.alt+"GA", fmt.Sprintf("%sdelins[%d_%d;GA]", span, from+1, to)
			}
		case 10: // the end of the sequence by its name
			if len(list) > 0 {
				x.to, end = len(seq), len(seq)
				x.alt, x.text = otherStrand(seq[first-1:]), fmt.Sprintf("%d_qterinv", first)
				break
			}
			x.from, x.text = 0, fmt.Sprintf("pter_%ddel", last)
		}
		list = append(list, x)
		at = end + rnd.IntN(4)
		if end > len(seq)-2 {
			break
		}
	}
	return list
}

// brackets is a description of changes of one molecule.
func brackets(list []piece) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.text
	}
	if len(list) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ";") + "]"
}

// checkAllele holds one random description to the molecule that it means: its normal form, the genomic one and the rows
// of VCF denote that molecule, and the normal form stays as it is.
func checkAllele(t testing.TB, seed uint64) (joined bool) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 48))
	var b strings.Builder
	switch rnd.IntN(3) {
	case 0: // any sequence
		for range 36 {
			b.WriteByte("ACGT"[rnd.IntN(4)])
		}
	case 1: // of two letters
		for range 36 {
			b.WriteByte("AC"[rnd.IntN(2)])
		}
	default: // repeats of a unit between other bases
		unit := []string{"A", "CA", "GAC", "GA", "T"}[rnd.IntN(5)]
		for b.Len() < 36 {
			b.WriteString(strings.Repeat(unit, 1+rnd.IntN(6)))
			b.WriteByte("ACGT"[rnd.IntN(4)])
		}
	}
	seq := b.String()[:36]
	g := readGenome(t, ">c\n"+seq+"\n")
	m, err := ReadModel(strings.NewReader(rows("c mRNA 1 36 + . ID=F", "c exon 1 36 + . Parent=F", "c CDS 1 36 + 0 Parent=F",
		"c mRNA 1 36 - . ID=R", "c exon 1 36 - . Parent=R", "c CDS 1 36 - 0 Parent=R")), g)
	require.NoError(t, err)
	n := NewNormalizer(New(g, m), ProteinStyle{})

	along, prefix := seq, []string{"c:g.", "F:c.", "R:c.", "R:n."}[rnd.IntN(4)]
	if prefix[0] == 'R' {
		along = otherStrand(seq)
	}
	list := describable(rnd, along, 1+rnd.IntN(4))
	if len(list) == 0 {
		return false
	}
	want := molecule(along, list)
	in := prefix + brackets(list)
	got, err := n.Normalize(in)
	if errors.Is(err, errNoDescription) && strings.Contains(in, "ter") {
		return false // bases before the first or behind the last: no position is beside them
	}
	require.NoError(t, err, "%s on %s", in, seq)
	of := func(description, along string) string {
		_, text, _ := strings.Cut(description, ".")
		ps, err := pieces(along, text)
		require.NoError(t, err, "%s of %s on %s", description, in, seq)
		return molecule(along, ps)
	}
	require.Equal(t, want, of(got.Description, along), "%s of %s on %s", got.Description, in, seq)
	forward := want
	if prefix[0] == 'R' {
		forward = otherStrand(want)
	}
	if got.Genomic != "" {
		require.Equal(t, forward, of(got.Genomic, seq), "%s of %s on %s", got.Genomic, in, seq)
	}
	var vcf []piece
	for _, l := range got.Loci {
		require.Equal(t, l.Ref, seq[l.Pos-1:l.Pos-1+len(l.Ref)], "%v of %s on %s", l, in, seq)
		vcf = append(vcf, piece{from: l.Pos - 1, to: l.Pos - 1 + len(l.Ref), alt: l.Alt})
	}
	for i, x := range vcf[:max(0, len(vcf)-1)] {
		require.LessOrEqual(t, x.to, vcf[i+1].from, "%v of %s on %s can be applied together", got.Loci, in, seq)
	}
	require.Equal(t, forward, molecule(seq, vcf), "%v of %s on %s", got.Loci, in, seq)
	again, err := n.Normalize(got.Description)
	require.NoError(t, err, "%s of %s on %s", got.Description, in, seq)
	require.Equal(t, got.Description, again.Description, "of %s on %s", in, seq)
	return len(list) > 1 && !strings.Contains(got.Description, ";")
}

// Descriptions of up to four changes, in random sequences and in repeats, on both strands.
func TestAllelesDenoteOneMolecule(t *testing.T) {
	testenv.CalculatesLong(t)
	runs := uint64(20_000)
	if testing.Short() {
		runs = 2_000
	}
	joined := 0
	for seed := range runs {
		if checkAllele(t, seed) {
			joined++
		}
	}
	require.Positive(t, joined, "some changes come to stand side by side")
}

func FuzzAlleles(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkAllele(t, seed) })
}

// TestAllelesThatMeet has the cases that people reported.
func TestAllelesThatMeet(t *testing.T) {
	g := readGenome(t, ">c\nCATCATATAGACGACGACGACGTTCAACTG\n")
	n := NewNormalizer(New(g, nil), ProteinStyle{})
	for _, c := range []struct{ in, want, rows string }{
		{"c:g.[10_12del;14_17inv]", "c:g.11_17delinsTCGT", "c:9:AGAC:A;c:14:ACGA:TCGT"},
		{"c:g.[10_12del;16_17insT]", "c:g.14_16delinsT", "c:9:AGAC:A;c:16:G:GT"},
		{"c:g.[10_12dup;13_15dup]", "c:g.17_22dup", "c:9:A:AGACGAC"},
		{"c:g.[12C>T;16_18del]", "c:g.[12C>T;20_22del]", "c:12:CGAC:T"},
		{"c:g.[25=;26del]", "c:g.27del", "c:25:CA:C"},
		{"c:g.[26del;27=]", "c:g.27del", "c:25:CA:C"},
		{"c:g.[25C>T;26del]", "c:g.25_26delinsT", "c:25:CA:T"},
		{"c:g.[24_25insA;25C>T;25_26insA]", "c:g.25delinsATA", "c:25:C:ATA"},
	} {
		got, err := n.Normalize(c.in)
		require.NoError(t, err, c.in)
		texts := make([]string, len(got.Loci))
		for i, l := range got.Loci {
			texts[i] = l.String()
		}
		require.Equal(t, c.want, got.Description, c.in)
		require.Equal(t, c.rows, strings.Join(texts, ";"), c.in)
	}
	for _, in := range []string{"c:g.[10_12del;12_13del]", "c:g.[10_12dup;12C>T]", "c:g.[10_14del;12_13insT]", "c:g.[10_12dup;11_14dup]", "c:g.[10=;10del]", "c:g.[10_11insT;10_11insA]", "c:g.[10_12inv;10G>A]"} {
		_, err := n.Normalize(in)
		require.ErrorContains(t, err, "overlap", in)
	}
}
