package annotate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/vrs"
)

// TestNormalizeRoundTrip makes random changes and follows them from variant to HGVS and back, along the contig and along
// every transcript, and from other spellings to the normal form. PORESTREAM_CASES sets the number of changes.
func TestNormalizeRoundTrip(t *testing.T) {
	testenv.CalculatesLong(t)
	all := cases(t, 12_000)
	seen := map[string]int{}
	t.Run("synthetic", func(t *testing.T) {
		const each = 10_000
		for seed := uint64(1); ; seed++ {
			n := min(each, all*5/10-int(seed-1)*each)
			if n <= 0 {
				return
			}
			roundTrips(t, synthetic(t, seed), n, seed, seen)
		}
	})
	t.Run("lambda", func(t *testing.T) { roundTrips(t, lambda(t), all*15/100, 1, seen) })
	t.Run("ecoli", func(t *testing.T) { roundTrips(t, ecoli(t), all*15/100, 1, seen) })
	t.Run("sarscov2", func(t *testing.T) { roundTrips(t, sarscov2(t), all*20/100, 1, seen) })
	t.Log(counted(seen))
}

// roundTrips makes n random changes.
func roundTrips(t *testing.T, a *Annotator, n int, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(29, seed))
	normalizer := NewNormalizer(a, ProteinStyle{Predicted: true})
	contigs := layOut(a)
	for made := 0; made < n; {
		x := contigs[rng.IntN(len(contigs))]
		c := randomChange(rng, []byte(x.seq), x.places)
		e := vrs.Edit{Start: c.start, Ref: x.seq[c.start:c.end], Alt: c.alt}
		if rng.IntN(8) == 0 {
			e.Alt = reverseComplement(e.Ref)
		}
		if e.Ref == e.Alt {
			continue
		}
		e = e.Normal([]byte(x.seq))
		want := Locus{Contig: x.name, Pos: e.Start + 1, Ref: e.Ref, Alt: e.Alt}
		ann, err := a.Annotate(want.Contig, want.Pos, want.Ref, want.Alt)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		made++
		seen["changes"]++
		if ann.HGVSg != "" {
			along := roundTrip(t, normalizer, ann.HGVSg, want, seen)
			checkSpellings(t, normalizer, rng, x, e, along, seen)
		}
		for _, q := range ann.Consequences {
			if q.HGVSc == "" {
				continue
			}
			seen["descriptions along transcripts"]++
			roundTrip(t, normalizer, q.HGVSc, want, seen)
		}
	}
}

// roundTrip normalises a description of want.
func roundTrip(t *testing.T, n *Normalizer, description string, want Locus, seen map[string]int) Normal {
	t.Helper()
	got, err := n.Normalize(description)
	if err != nil {
		for _, reason := range []string{"say which", "the ribosome slips"} {
			if strings.Contains(err.Error(), reason) {
				seen["refused: "+reason]++
				return Normal{}
			}
		}
		t.Fatalf("%s, which is %s: %v", want, description, err)
	}
	if len(got.Loci) != 1 || got.Loci[0] != want {
		t.Fatalf("%s, which is %s, comes back as %v", want, description, got.Loci)
	}
	if got.Description != description {
		t.Fatalf("%s: %s has the normal form %s", want, description, got.Description)
	}
	again, err := n.Normalize(got.Description)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(got) {
		t.Fatalf("%s: its normal form %s gives %+v %v, not %+v", description, got.Description, again, err, got)
	}
	return got
}

// checkSpellings describes e in other ways along the contig, which must have the same normal form.
func checkSpellings(t *testing.T, n *Normalizer, rng *rand.Rand, x *laidOut, e vrs.Edit, want Normal, seen map[string]int) {
	t.Helper()
	prefix := want.Description[:strings.Index(want.Description, ":")+2]
	wide := vrs.Edit{Start: max(0, e.Start-rng.IntN(4))}
	end := min(len(x.seq), e.End()+rng.IntN(4))
	wide.Ref = x.seq[wide.Start:end]
	wide.Alt = x.seq[wide.Start:e.Start] + e.Alt + x.seq[e.End():end]
	spellings := []string{fmt.Sprintf("%s.%d_%ddel%sins%s", prefix, wide.Start+1, end, wide.Ref, wide.Alt)}
	if wide.Alt == "" {
		spellings = nil
	}
	left := e.Left([]byte(x.seq))
	free := left.Right([]byte(x.seq)).Start - left.Start
	shift := rng.IntN(free + 1)
	moved := left.Start + shift
	switch {
	case left.Alt == "":
		spellings = append(spellings, fmt.Sprintf("%s.%d_%ddel%d", prefix, moved+1, moved+len(left.Ref), len(left.Ref)))
	case left.Ref == "" && moved > 0 && moved < len(x.seq):
		spellings = append(spellings, fmt.Sprintf("%s.%d_%dins%s", prefix, moved, moved+1, strings.ToLower(rotate(left.Alt, shift))))
	}
	for _, s := range spellings {
		seen["other spellings"]++
		got, err := n.Normalize(s)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %+v %v, want %+v", s, got, err, want)
		}
	}
}
