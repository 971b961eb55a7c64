package annotate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var proteinPattern = regexp.MustCompile(`^([A-Z][a-z]{2})([0-9]+)(?:_[A-Z][a-z]{2}([0-9]+))?(=|delins|del|dup|ins)?((?:[A-Z][a-z]{2})*)$`)

// letters are the one-letter symbols of three-letter names. They share no table with the engine.
func letters(t testing.TB, names string) string {
	t.Helper()
	var b strings.Builder
	for ; names != ""; names = names[3:] {
		i := strings.Index("AlaArgAsnAspCysGlnGluGlyHisIleLeuLysMetPheProSerThrTrpTyrValTer", names[:3])
		require.NotEqual(t, -1, i, names)
		b.WriteByte("ARNDCQEGHILKMFPSTWYV*"[i/3])
	}
	return b.String()
}

// changedProtein applies what follows "p." to a protein, and reports whether two changes of it follow each
// other.
func changedProtein(t testing.TB, protein, text string) (changed string, touching bool) {
	t.Helper()
	var list []piece
	lastOf := -2
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ";") {
		m := proteinPattern.FindStringSubmatch(part)
		require.NotNil(t, m, part)
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		require.Equal(t, letters(t, m[1]), protein[first-1:first], part)
		x := piece{from: first - 1, to: last, alt: letters(t, m[5])}
		switch m[4] {
		case "=":
			continue
		case "dup":
			x.from, x.alt = last, protein[first-1:last]
		case "ins":
			x.from, x.to = first, first
		}
		touching = touching || x.from <= lastOf
		lastOf = x.to
		list = append(list, x)
	}
	return molecule(protein, list), touching
}

// TestProteinsOfSeveralChanges: the description of a protein that several changes of its gene give denotes their
// translation, and residues that follow each other are changed by one of its parts, not by two.
func TestProteinsOfSeveralChanges(t *testing.T) {
	codons := strings.Fields("AAA AAG AAC GCA TGC GAT GAA TTC GGT CAT ATC CTT CCA CAA AGA TCA ACT GTA TGG TAC ATG")
	merged := 0
	for seed := range uint64(2_000) {
		rnd := rand.New(rand.NewPCG(seed, 115))
		cds := "ATG"
		for len(cds) < 3*14 {
			c := codons[rnd.IntN(len(codons))]
			cds += strings.Repeat(c, 1+rnd.IntN(3))
		}
		cds += "TAA"
		seq := "CC" + cds + "GTAACC"
		g := readGenome(t, ">c\n"+seq+"\n")
		m, err := ReadModel(strings.NewReader(rows(fmt.Sprintf("c mRNA 1 %d + . ID=T", len(seq)), fmt.Sprintf("c exon 1 %d + . Parent=T", len(seq)),
			fmt.Sprintf("c CDS 3 %d + 0 Parent=T;protein_id=P", len(cds)+2))), g)
		require.NoError(t, err)
		n := NewNormalizer(New(g, m), ProteinStyle{})

		var list []piece
		for at := 2 + rnd.IntN(3); len(list) < 2+rnd.IntN(3) && at < 12; at += 1 + rnd.IntN(3) {
			first := 3*at + 1
			x := piece{from: first - 1, to: first + 2}
			switch rnd.IntN(4) {
			case 0:
				x.text = fmt.Sprintf("%d_%ddel", first, first+2)
			case 1:
				x.to, x.alt = x.from, codons[rnd.IntN(len(codons))]
				x.text = fmt.Sprintf("%d_%dins%s", first-1, first, x.alt)
			default:
				x.alt = codons[rnd.IntN(len(codons))]
				x.text = fmt.Sprintf("%d_%ddelins%s", first, first+2, x.alt)
			}
			list = append(list, x)
		}
		in := "T:c." + brackets(list)
		got, err := n.Normalize(in)
		if err != nil {
			require.ErrorContains(t, err, "overlap", in) // two insertions in one place
			continue
		}
		translated := func(s string) string {
			var b strings.Builder
			for i := 0; i+3 <= len(s); i += 3 {
				a := codeOf(1).amino(s[i], s[i+1], s[i+2])
				if b.WriteByte(a); a == '*' {
					break
				}
			}
			return b.String()
		}
		_, text, _ := strings.Cut(got.Protein, ":p.")
		protein := translated(cds)
		have, touching := changedProtein(t, protein, text)
		require.Equal(t, translated(molecule(cds, list)), have, "%s of %s on %s", text, in, protein)
		require.False(t, touching, "%s of %s on %s", text, in, protein)
		if !strings.Contains(text, ";") {
			merged++
		}
	}
	require.Greater(t, merged, 250)
}
