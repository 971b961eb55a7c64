package eval_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant/eval"
)

// events is the outcome of whole events in short, by kind: found/missed(half found) right/wrong(half right) and how many were one
// record.
func events(r *eval.Result) string {
	var parts []string
	for _, e := range r.Events {
		if e.Kind != "ALL" && e.TruthTP+e.TruthFN+e.QueryTP+e.QueryFP > 0 {
			parts = append(parts, fmt.Sprintf("%s %d/%d(%d) %d/%d(%d) one%d", e.Kind, e.TruthTP, e.TruthFN, e.TruthPart, e.QueryTP, e.QueryFP, e.QueryPart, e.OneRecord))
		}
	}
	return strings.Join(parts, "; ")
}

func TestEventsCountAsAWhole(t *testing.T) {
	t.Parallel()
	const (
		//       1234567890123456789012345678901234567890
		plain = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
		runs  = "GCTAAAAAAAAGTCACACACACAGTTGACCATGATTACAG"
	)
	for _, tt := range []struct {
		name         string
		seq          string
		truth, query []string
		opts         eval.Options
		want         string
	}{
		{name: "MNP as one record", seq: plain, truth: []string{"5 TGC CAT 1"}, query: []string{"5 TGC CAT 1"}, want: "MNP 1/0(0) 1/0(0) one1"},
		{name: "MNP as its SNPs", seq: plain, truth: []string{"5 TGC CAT 1"}, query: []string{"5 T C 1", "6 G A 1", "7 C T 1"}, want: "SNP 0/0(0) 3/0(0) one0; MNP 1/0(0) 0/0(0) one0"},
		{name: "SNPs as an MNP", seq: plain, truth: []string{"5 T C 1", "6 G A 1"}, query: []string{"5 TG CA 1"}, want: "SNP 2/0(0) 0/0(0) one0; MNP 0/0(0) 1/0(0) one0"},
		{name: "half of an MNP is wrong too", seq: plain, truth: []string{"5 TGC CAT 1"}, query: []string{"6 G A 1"}, want: "SNP 0/0(0) 0/1(1) one0; MNP 0/1(1) 0/0(0) one0"},
		{name: "half of it filtered", seq: plain, truth: []string{"5 TG CA 1"}, query: []string{"5 T C 1", "6 G A 1 FILTER=LowQual"}, want: "SNP 0/0(0) 0/1(1) one0; MNP 0/1(1) 0/0(0) one0"},
		{name: "half of it filtered, all", seq: plain, truth: []string{"5 TG CA 1"}, query: []string{"5 T C 1", "6 G A 1 FILTER=LowQual"}, opts: eval.Options{All: true}, want: "SNP 0/0(0) 2/0(0) one0; MNP 1/0(0) 0/0(0) one0"},
		{name: "an MNP where there is a SNP", seq: plain, truth: []string{"5 T C 1"}, query: []string{"5 TG CA 1"}, want: "SNP 0/1(1) 0/0(0) one0; MNP 0/0(0) 0/1(1) one0"},
		{name: "another MNP", seq: plain, truth: []string{"5 TG CA 1"}, query: []string{"5 TG AT 1"}, want: "MNP 0/1(0) 0/1(0) one0"},
		{name: "MNP with an unchanged base", seq: plain, truth: []string{"5 TGC CGT 1"}, query: []string{"5 TGC CGT 1"}, want: "MNP 1/0(0) 1/0(0) one1"},
		{name: "padded SNP", seq: plain, truth: []string{"5 T C 1"}, query: []string{"3 GTTG GTCG 1"}, want: "SNP 1/0(0) 1/0(0) one1"},
		{name: "delins", seq: plain, truth: []string{"9 ACG TTTCT 1"}, query: []string{"9 ACG TTTCT 1"}, want: "delins 1/0(0) 1/0(0) one1"},
		{name: "padded delins", seq: plain, truth: []string{"9 ACG TTTCT 1"}, query: []string{"8 AACGG ATTTCTG 1"}, want: "delins 1/0(0) 1/0(0) one1"},
		{name: "delins split", seq: plain, truth: []string{"5 TG CAA 1"}, query: []string{"5 T C 1", "6 G AA 1"}, want: "SNP 0/0(0) 1/0(0) one0; delins 1/0(0) 1/0(0) one0"},
		{name: "half of a delins", seq: plain, truth: []string{"5 TGC A 1"}, query: []string{"4 TTG T 1"}, want: "deletion 0/0(0) 0/1(1) one0; delins 0/1(1) 0/0(0) one0"},
		{name: "indel elsewhere in its run", seq: runs, truth: []string{"3 TA T 1"}, query: []string{"8 AA A 1"}, want: "deletion 1/0(0) 1/0(0) one1"},
		{name: "insertion elsewhere in its repeat", seq: runs, truth: []string{"13 T TCA 1"}, query: []string{"17 A ACA 1"}, want: "insertion 1/0(0) 1/0(0) one1"},
		{name: "one indel as two", seq: runs, truth: []string{"3 TAA T 1"}, query: []string{"3 TA T 1", "6 AA A 1"}, want: "deletion 1/0(0) 2/0(0) one0"},
		{name: "wrong genotype", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"5 TG CA 1/1"}, want: "MNP 0/1(0) 0/1(0) one0"},
		{name: "wrong genotype, alleles alone", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"5 TG CA 1/1"}, opts: eval.Options{Squash: true}, want: "MNP 1/0(0) 1/0(0) one1"},
		{name: "halves on two haplotypes", seq: plain, truth: []string{"5 T C 0|1", "6 G A 1|0"}, query: []string{"5 TG CA 0/1"}, want: "SNP 0/2(1) 0/0(0) one0; MNP 0/0(0) 0/1(1) one0"},
		{name: "two alleles of one record", seq: plain, truth: []string{"5 TG CG,CA 1/2"}, query: []string{"5 TG CG,CA 2/1"}, want: "SNP 1/0(0) 1/0(0) one1; MNP 1/0(0) 1/0(0) one1"},
		{name: "what two alleles share, and no more", seq: plain, truth: []string{"5 TG CG,CA 1/2"}, query: []string{"5 T C 1/1"}, want: "SNP 1/0(0) 0/1(1) one1; MNP 0/1(1) 0/0(0) one0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, events(compare(t, tt.seq, tt.truth, tt.query, tt.opts)))
		})
	}
}

func TestNeighboursByDistance(t *testing.T) {
	t.Parallel()
	seq := strings.Repeat("ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC", 2) + "AAAAAAAA" + strings.Repeat("GTC", 400) + "ACGTTGCAACGGTCATGCCTAGATCGTACC"
	for _, tt := range []struct {
		name  string
		truth []string
		want  string
	}{
		{"alone", []string{"5 T C 1"}, "isolated 1"},
		{"touching", []string{"5 T C 1", "6 G A 1"}, "within 1 2"},
		{"one base between", []string{"5 T C 1", "7 C A 1"}, "2-5 2"},
		{"four between", []string{"5 T C 1", "10 C A 1"}, "2-5 2"},
		{"five between", []string{"5 T C 1", "11 G A 1"}, "6-10 2"},
		{"nine between", []string{"5 T C 1", "15 A C 1"}, "6-10 2"},
		{"ten between", []string{"5 T C 1", "16 T C 1"}, "isolated 2"},
		{"one in the middle of two", []string{"5 T C 1", "15 A C 1", "16 T C 1"}, "within 1 2, 6-10 1"},
		{"a SNP in the run of a deletion", []string{"80 CA C 1", "85 A C 1"}, "within 1 2"},
		{"a SNP behind the run of a deletion", []string{"80 CA C 1", "92 G A 1"}, "2-5 2"},
		{"a repeat as long as the longest allele", []string{"88 AGTC A 1", "1289 A C 1"}, "within 1 2"},
		{"two alleles of a record", []string{"5 T C,A 1/2"}, "within 1 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := compare(t, seq, tt.truth, nil, eval.Options{})
			var got []string
			for _, n := range r.Neighbours {
				if n.TruthFN > 0 {
					got = append(got, fmt.Sprintf("%s %d", n.Distance, n.TruthFN))
				}
			}
			assert.Equal(t, tt.want, strings.Join(got, ", "))
			assert.Empty(t, compare(t, seq, nil, tt.truth, eval.Options{}).Neighbours, "of the calls")
		})
	}
}

// Whole events agree with the comparison of atoms: a set has all of its own events, a record is decided as its events are, however
// the other side is spelled, and no event is lost on the way.
func TestEventsAgreeWithAtoms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	halves, whole := 0, 0
	for n := range 80 {
		seq := repetitive(r, 600)
		truth := randomChanges(r, seq)
		query := damaged(r, seq, truth)
		for i, c := range query { // half of an MNP
			if len(c.ref) == 3 && len(c.alt) == 3 && r.IntN(3) == 0 {
				query[i].ref, query[i].alt = c.ref[:1], c.alt[:1]
			}
		}
		self := compare(t, seq, lines(truth), lines(truth), eval.Options{})
		for _, e := range self.Events {
			require.Zero(t, e.TruthFN+e.QueryFP, "case %d: a set against itself, %s", n, e.Kind)
			require.Equal(t, e.TruthTP, e.OneRecord, "case %d: a set against itself, %s", n, e.Kind)
		}
		records := map[bool]int{} // by side, that are right
		opts := eval.Options{Each: func(o eval.Outcome) error {
			if o.Decision == eval.TruePositive {
				records[o.Truth]++
			}
			return nil
		}}
		plain := compare(t, seq, lines(truth), lines(query), opts)
		all := plain.Events[len(plain.Events)-1]
		sum, near := eval.EventRow{}, 0
		for _, e := range plain.Events[:len(plain.Events)-1] {
			sum.TruthTP += e.TruthTP
			sum.QueryTP += e.QueryTP
			sum.TruthFN += e.TruthFN
			sum.QueryFP += e.QueryFP
			require.LessOrEqual(t, e.OneRecord, e.TruthTP)
			require.LessOrEqual(t, e.TruthPart, e.TruthFN)
			require.LessOrEqual(t, e.QueryPart, e.QueryFP)
		}
		for _, n := range plain.Neighbours {
			near += n.TruthTP + n.TruthFN
		}
		require.Equal(t, []int{all.TruthTP, all.TruthFN, all.QueryTP, all.QueryFP, all.TruthTP + all.TruthFN}, []int{sum.TruthTP, sum.TruthFN, sum.QueryTP, sum.QueryFP, near})
		alleles := func(set []change) (n int) {
			for _, c := range set {
				n += 1 + strings.Count(c.alt, ",")
			}
			return n
		}
		require.Equal(t, alleles(truth), all.TruthTP+all.TruthFN, "case %d", n)
		require.Equal(t, alleles(query), all.QueryTP+all.QueryFP, "case %d", n)
		require.LessOrEqual(t, all.TruthTP, records[true]+strings.Count(fmt.Sprint(truth), ","), "case %d", n)

		words := respelled(r, seq, query)
		again := compare(t, seq, lines(truth), lines(words), eval.Options{})
		for i, e := range again.Events {
			require.Equal(t, []int{plain.Events[i].TruthTP, plain.Events[i].TruthFN}, []int{e.TruthTP, e.TruthFN}, "case %d: %s, respelled\ntruth %v\nquery %v\nwords %v", n, e.Kind, truth, query, words)
		}
		halves += all.TruthPart + all.QueryPart
		whole += all.TruthTP
	}
	require.Greater(t, whole, 300)
	require.Positive(t, halves)
}

func TestEventsAreWritten(t *testing.T) {
	t.Parallel()
	r := compare(t, "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC", []string{"5 TG CA 1", "20 T C 1"}, []string{"5 TG CA 1"}, eval.Options{})
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	var rows []string
	for line := range strings.Lines(text.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	require.Contains(t, rows, "MNP 1 1 1 0 0 1 1 0 0 1.0000 1.0000 1.0000")
	require.Contains(t, rows, "isolated 2 1 1 1 0 0.5000")
}
