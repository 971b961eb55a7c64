package annotate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// cases is how many random cases a test makes: few by default, PORESTREAM_CASES for a long run.
func cases(t testing.TB, few int) int {
	s := os.Getenv("PORESTREAM_CASES")
	if s == "" {
		return few
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("PORESTREAM_CASES is %q", s)
	}
	return n
}

// randomChange is a change of a kind and place that matter.
func randomChange(rng *rand.Rand, seq []byte, places []int) change {
	at := places[rng.IntN(len(places))] + rng.IntN(41) - 20
	if rng.IntN(4) == 0 {
		at = places[0] + rng.IntN(max(1, places[len(places)-1]-places[0]))
	}
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ACGT"[rng.IntN(4)]
		}
		return string(b)
	}
	at = min(max(at, 0), len(seq)-1)
	n := 1 + rng.IntN(4)*rng.IntN(4)
	if rng.IntN(20) == 0 {
		n += rng.IntN(60)
	}
	if rng.IntN(150) == 0 {
		n += rng.IntN(500)
	}
	end := min(at+n, len(seq))
	switch rng.IntN(8) {
	case 0, 1, 2:
		return change{at, at + 1, random(1)}
	case 3:
		return change{at, end, ""}
	case 4:
		return change{at, at, random(n)}
	case 5: // a tandem copy
		return change{at, at, string(seq[max(0, at-n):at])}
	case 6:
		return change{at, end, random(end - at)}
	}
	return change{at, end, random(1 + rng.IntN(6))}
}

// TestDefinitions compares the engine with the definitions, on made-up sets of genes like human ones, a phage, a
// bacterium and a virus. PORESTREAM_CASES sets the number of cases.
func TestDefinitions(t *testing.T) {
	testenv.CalculatesLong(t)
	all := cases(t, 30_000)
	seen := map[string]int{}
	t.Run("synthetic", func(t *testing.T) {
		const each = 20_000
		for seed := uint64(1); ; seed++ {
			n := min(each, all*6/10-int(seed-1)*each)
			if n <= 0 {
				return
			}
			compareWithDefinitions(t, synthetic(t, seed), n, seed, seen)
		}
	})
	t.Run("lambda", func(t *testing.T) { compareWithDefinitions(t, lambda(t), all*15/100, 1, seen) })
	t.Run("ecoli", func(t *testing.T) { compareWithDefinitions(t, ecoli(t), all*15/100, 1, seen) })
	t.Run("sarscov2", func(t *testing.T) { compareWithDefinitions(t, sarscov2(t), all*10/100, 1, seen) })
	t.Log(counted(seen))
	for term := range Terms() {
		// Regulatory features and structural variants have tests of their own.
		switch name := term.Name; {
		case strings.HasPrefix(name, "feature_"), strings.HasPrefix(name, "regulatory_"), strings.HasPrefix(name, "TF"), name == "mature_miRNA_variant",
			all < 200_000 && (name == "transcript_ablation" || name == "incomplete_terminal_codon_variant"),
			name == "transcript_amplification", name == "intergenic_variant", name == "sequence_variant", name == "coding_transcript_variant":
		case seen[name] == 0:
			t.Errorf("no case of %s", name)
		}
	}
}

// laidOut is a contig with its transcripts.
type laidOut struct {
	name     string
	seq      string
	messages []*message
	ids      []string
	near     []Span // of the messages, with their surroundings
	places   []int  // edges of exons and coding pieces
}

// layOut lays out the transcripts of an annotator's model.
func layOut(a *Annotator) []*laidOut {
	var all []*laidOut
	for _, c := range a.genome.Contigs {
		x := &laidOut{name: c.Name, seq: string(c.Flat())}
		other := reversedStrand(x.seq)
		for _, v := range a.model.TranscriptsOn(c.Name) {
			m := newMessage(&v, x.seq, other)
			m.circular = a.model.contigs[c].circle > 0
			x.messages, x.ids = append(x.messages, m), append(x.ids, v.ID)
			x.near = append(x.near, Span{v.Start - 6000, v.End + 6000})
			for _, e := range v.Exons {
				x.places = append(x.places, e.Start, e.End)
			}
			for _, e := range v.CDS {
				x.places = append(x.places, e.Start, e.End)
			}
		}
		slices.Sort(x.places)
		if len(x.places) > 0 {
			all = append(all, x)
		}
	}
	return all
}

// compareWithDefinitions makes n random changes and compares their terms with those of the definitions.
func compareWithDefinitions(t *testing.T, a *Annotator, n int, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(17, seed))
	contigs := layOut(a)
	pairs, failures, stops := 0, 0, 0
	for range n {
		x := contigs[rng.IntN(len(contigs))]
		c := randomChange(rng, []byte(x.seq), x.places)
		ref := x.seq[c.start:c.end]
		if ref == c.alt {
			continue
		}
		ann, err := a.Annotate(x.name, c.start+1, ref, c.alt)
		if err != nil {
			t.Fatal(err)
		}
		engine, proteins := map[string][]string{}, map[string]string{}
		for _, k := range ann.Consequences {
			if k.Feature == nil {
				continue
			}
			var names []string
			for _, term := range k.Terms {
				names = append(names, term.Name)
				seen[term.Name]++
			}
			slices.Sort(names)
			engine[k.Feature.ID] = names
			_, proteins[k.Feature.ID], _ = strings.Cut(k.HGVSp, ":p.")
		}
		places := placements(x.seq, c)
		for j, near := range x.near {
			if c.end < near.Start || c.start > near.End {
				continue
			}
			got, want := engine[x.ids[j]], x.messages[j].terms(places)
			if got == nil && want == nil || slices.Contains(want, "undecided") {
				continue
			}
			pairs++
			if p := proteins[x.ids[j]]; strings.Contains(p, "fsTer") && slices.Contains(want, "frameshift_variant") && !overlapping(x.messages[j].cds) {
				stops++
				if q := x.messages[j].frameshift(x.messages[j].placement(places)); p != q {
					t.Errorf("%s:%d %s>%s %s: %s, by translation %q", x.name, c.start+1, ref, c.alt, x.ids[j], p, q)
				}
			}
			if !slices.Equal(got, want) {
				if failures++; failures <= 10 {
					t.Errorf("%s:%d %s>%s %s: %v, by the definitions %v", x.name, c.start+1, ref, c.alt, x.ids[j], got, want)
				}
			}
		}
	}
	if failures > 0 {
		t.Errorf("%d of %d pairs of variant and transcript differ", failures, pairs)
	}
	if stops < n/50 {
		t.Errorf("only %d shifts of the frame with a new stop", stops)
	}
}

func counted(seen map[string]int) string {
	var parts []string
	for name, n := range seen {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func reversedStrand(seq string) string {
	b := []byte(seq)
	slices.Reverse(b)
	for i, c := range b {
		if j := strings.IndexByte("ACGT", c); j >= 0 {
			b[i] = "TGCA"[j]
		} else {
			b[i] = 'N'
		}
	}
	return string(b)
}
