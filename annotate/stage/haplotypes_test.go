package stage

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/annotate/haplotype"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

func lambdaHaplotypes(t testing.TB) (*genome.Genome, GeneHaplotypes) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	if err != nil {
		t.Fatal(err)
	}
	genes, err := haplotype.NewGenes(g, model, false)
	if err != nil {
		t.Fatal(err)
	}
	return g, GeneHaplotypes{genes}
}

// Codon 118 of cI is GAG on the reverse strand, bases 37589 to 37587 of the contig:
// C37589T alone makes it AAG, a lysine; with T37588C it is AGG, an arginine.
func TestTwoChangesOfACodon(t *testing.T) {
	g, haplotypes := lambdaHaplotypes(t)
	if got := string(g.Contig("J02459.1").Seq[37586:37589]); got != "CTC" {
		t.Fatalf("the contig has %s there", got)
	}
	together, err := haplotypes.Together("J02459.1", []event.Allele{
		{VRSID: "a", Contig: "J02459.1", Pos: 37588, Ref: "T", Alt: "C"},
		{VRSID: "b", Contig: "J02459.1", Pos: 37589, Ref: "C", Alt: "T"},
		{VRSID: "c", Contig: "J02459.1", Pos: 37742, Ref: "C", Alt: "T"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, with := range []string{"b", "a"} {
		if len(together[i]) != 1 {
			t.Fatalf("allele %d: %+v", i, together[i])
		}
		got := together[i][0]
		got.Transcript = ""
		want := event.Compound{
			Gene: "cI", Biotype: "protein_coding", Terms: []string{"missense"}, AminoAcids: "118E>118R", Changes: "37588T>C+37589C>T", With: []string{with},
		}
		if !got.Equal(want) {
			t.Errorf("allele %d: %+v, want %+v", i, got, want)
		}
	}
	if len(together[2]) != 0 {
		t.Errorf("an allele elsewhere in the gene acts with others: %+v", together[2])
	}
}

// However calls come and go, an allele's effects together with its neighbours
// equal those of the whole contig, evaluated once.
func TestLocusByLocusIsTheWholeContig(t *testing.T) {
	g, haplotypes := lambdaHaplotypes(t)
	contig := g.Contig("J02459.1")
	rng := rand.New(rand.NewPCG(7, 8))
	compounds := 0
	for range 20 {
		n := neighbours{haplotypes: haplotypes}
		var calls []*streampb.Call
		pos := 1 + rng.IntN(500)
		for pos < len(contig.Seq)-3000 {
			calls = append(calls, randomCall(rng, contig, pos))
			pos += 1 + rng.IntN(3) + rng.IntN(2)*rng.IntN(400) + len(calls[len(calls)-1].GetRef())
		}
		order := rng.Perm(len(calls))
		for _, i := range order {
			if _, err := n.apply(calls[i]); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range order[:len(order)/4] {
			gone := proto.CloneOf(calls[i])
			gone.Revision, gone.Status = 2, streampb.CallStatus_RETRACTED
			if _, err := n.apply(gone); err != nil {
				t.Fatal(err)
			}
		}
		var alleles []event.Allele
		var stand []*standing
		for _, s := range n.contigs[contigKey{"lambda", contig.Name}].alleles {
			if s.joins() {
				alleles, stand = append(alleles, event.AlleleOf(s.call)), append(stand, s)
			} else if s.compounds != nil {
				t.Fatalf("%v went, and acts with others", s.call)
			}
		}
		whole, err := haplotypes.Together(contig.Name, alleles)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range stand {
			if !slices.EqualFunc(s.compounds, whole[i], event.Compound.Equal) {
				t.Fatalf("%v\nhas     %+v\nbut all %+v", s.call, s.compounds, whole[i])
			}
			compounds += len(s.compounds)
		}
	}
	if compounds < 1000 {
		t.Errorf("%d compounds in all: too few to tell anything", compounds)
	}
}

// randomCall is a substitution, an insertion, or a deletion of up to 400 bases.
func randomCall(rng *rand.Rand, contig *genome.Contig, pos int) *streampb.Call {
	ref := contig.Seq[pos-1 : pos]
	alt := string(ref)
	switch rng.IntN(6) {
	case 0:
		for range 1 + rng.IntN(4) {
			alt += string("ACGT"[rng.IntN(4)])
		}
	case 1:
		size := 1 + rng.IntN(4)
		if rng.IntN(8) == 0 {
			size = rng.IntN(400) + 1
		}
		ref = contig.Seq[pos-1 : pos+size]
	default:
		for alt == string(ref) {
			alt = string("ACGT"[rng.IntN(4)])
		}
	}
	c := testCall(int64(pos), string(ref), alt, 1, streampb.CallStatus_PROVISIONAL)
	c.VrsId = fmt.Sprintf("ga4gh:VA.%d%s%s", pos, c.GetRef(), alt)
	return c
}
