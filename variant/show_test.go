package variant_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vrs"
)

// The depth that a region shows is what its segments span, and reading it or a
// pile-up changes nothing of what it calls.
func TestDepthAndPileupShowTheReads(t *testing.T) {
	s, want := planted(t, 3)
	segments := s.segments(t, 40, 2500, 0, 6000)
	r := region(t, s.contig, 0, variant.Config{Sample: "s"})
	undisturbed := region(t, s.contig, 0, variant.Config{Sample: "s"})
	apply(t, r, segments...)
	apply(t, undisturbed, segments...)

	const bin = 700
	depth := r.Depth(bin)
	if start, end := r.Bounds(); start != 0 || end != 6000 || len(depth) != (6000+bin-1)/bin {
		t.Fatalf("%d bins of a region from %d to %d", len(depth), start, end)
	}
	fine := r.Depth(1)
	for b, got := range depth {
		sum := 0
		width := min(6000, (b+1)*bin) - b*bin
		for _, d := range fine[b*bin : b*bin+width] {
			sum += int(d)
		}
		if exact := float64(sum) / float64(width); float64(got) < exact-1 || float64(got) > exact+1 {
			t.Errorf("bin %d has %d tenths, its positions have %g", b, got, exact)
		}
	}

	pos := 1000 // of the substitution
	p := r.Pileup(pos, 20, 1000)
	if len(p.Reference) != 41 || p.Start != pos-20 || p.Reference != string(s.contig.Seq[pos-20:pos+21]) {
		t.Fatalf("reference %q from %d", p.Reference, p.Start)
	}
	if got := int(fine[pos]) / 10; len(p.Rows)+p.LeftOut != got {
		t.Errorf("%d rows where %d reads are", len(p.Rows), got)
	}
	shown, reverse := 0, false
	for _, row := range p.Rows {
		if row.Start < 0 || row.Start+len(row.Bases) > len(p.Reference) || row.Name == "" || strings.Trim(row.Bases, ".-ACGTN") != "" {
			t.Fatalf("row %+v", row)
		}
		if reverse && !row.Reverse {
			t.Error("strands are mixed")
		}
		reverse = row.Reverse
		if row.Bases[20-row.Start] == s.edits[0].seq[0] {
			shown++
		}
	}
	if shown < len(p.Rows)*3/4 {
		t.Errorf("%d of %d reads show the substitution", shown, len(p.Rows))
	}
	if few := r.Pileup(pos, 20, 5); len(few.Rows) != 5 || few.LeftOut != len(p.Rows)-5 {
		t.Errorf("%d rows and %d left out, of %d", len(few.Rows), few.LeftOut, len(p.Rows))
	}
	for _, edge := range []int{0, 5999} {
		if p := r.Pileup(edge, 20, 10); len(p.Reference) != 21 {
			t.Errorf("at %d: %q", edge, p.Reference)
		}
	}
	got, plain := finalize(t, r), finalize(t, undisturbed)
	if strings.Join(passing(got), " ") != strings.Join(passing(plain), " ") || strings.Join(passing(got), " ") != strings.Join(want, " ") {
		t.Errorf("called %q, undisturbed %q", passing(got), passing(plain))
	}
}

// TestPileupShowsQualities: a base that differs has its own quality, as far as it is kept, a base as the reference that of its read, and a read without
// qualities none.
func TestPileupShowsQualities(t *testing.T) {
	s, _ := planted(t, 3)
	segments := s.segments(t, 40, 2500, 0, 6000)
	for i, seg := range segments {
		quality := []byte{6, 25, 0}[i%3]
		for k := range seg.GetQualities() {
			seg.Qualities[k] = quality
		}
		if quality == 0 {
			seg.Qualities = nil
		}
	}
	r := region(t, s.contig, 0, variant.Config{Sample: "s"})
	apply(t, r, segments...)
	seen := make(map[string]int)
	for _, row := range r.Pileup(1000, 20, 1000).Rows {
		if row.Quals == "" {
			seen["none"]++
			continue
		}
		if len(row.Quals) != len(row.Bases) {
			t.Fatalf("row %+v", row)
		}
		for i, b := range []byte(row.Bases) {
			kind := "differs"
			if b == '.' {
				kind = "same"
			} else if b == '-' {
				continue
			}
			seen[kind+string('0'+(row.Quals[i]-'!')/10)+string('0'+(row.Quals[i]-'!')%10)]++
		}
	}
	for _, quality := range []string{"none", "differs05", "differs20", "same05", "same19"} {
		if seen[quality] == 0 {
			t.Errorf("no %s: %v", quality, seen)
		}
		delete(seen, quality)
	}
	if len(seen) > 0 {
		t.Errorf("besides: %v", seen)
	}
}

// TestSupportReportsWhatIsLeftOut: where there are more reads than are used, the region reports how many aren't, also once it has let go of them.
func TestSupportReportsWhatIsLeftOut(t *testing.T) {
	s, _ := planted(t, 3)
	segments := s.segments(t, 40, 2500, 0, 6000)
	pos := 1000 // of the substitution
	allele := vrs.Edit{Start: pos, Ref: string(s.contig.Seq[pos : pos+1]), Alt: string(s.edits[0].seq[0])}
	region := func(most int) *variant.Region {
		r := region(t, s.contig, 0, variant.Config{Sample: "s", MaxDepth: most})
		apply(t, r, segments...)
		return r
	}
	all := region(len(segments)).Support([]vrs.Edit{allele})[0]
	if all.Left != 0 || all.Shows < all.Depth*3/4 || all.Depth < 10 {
		t.Fatalf("%+v of all reads", all)
	}
	r := region(6)
	few := r.Support([]vrs.Edit{allele})[0]
	if few.Left < all.Depth-6 || few.Left > len(segments)-6 || few.Depth > 6 {
		t.Errorf("%+v of which 6 are looked at, %+v of all", few, all)
	}
	finalize(t, r)
	if late := r.Support([]vrs.Edit{allele})[0]; late != few {
		t.Errorf("%+v after the end, %+v before", late, few)
	}
}

// TestSupportOfRuns: what each run's reads show adds up to what all show, and the reads that aren't used are divided as those that are; a run alone has all.
func TestSupportOfRuns(t *testing.T) {
	s, _ := planted(t, 3)
	segments := s.segments(t, 60, 2500, 0, 6000)
	pos := 1000
	alleles := []vrs.Edit{{Start: pos, Ref: string(s.contig.Seq[pos : pos+1]), Alt: string(s.edits[0].seq[0])}, {Start: pos + 700, Ref: string(s.contig.Seq[pos+700 : pos+701]), Alt: "AAT"}}
	for _, most := range []int{len(segments), 8} {
		alone := region(t, s.contig, 0, variant.Config{Sample: "s", MaxDepth: most})
		apply(t, alone, segments...)
		all := alone.Support(alleles)
		if runs := alone.Runs(); len(runs) != 1 || !slices.Equal(alone.RunSupport(runs[0], alleles), all) {
			t.Errorf("%v", runs)
		}
		if got := alone.RunSupport("another", alleles); got[0].Depth != 0 || got[0].Left != 0 {
			t.Errorf("%+v of a run without a read", got)
		}
		both := region(t, s.contig, 0, variant.Config{Sample: "s", MaxDepth: most})
		for i, seg := range segments {
			seg = proto.CloneOf(seg)
			seg.Run = []string{"b", "a", "b"}[i%3]
			apply(t, both, seg)
		}
		if runs := both.Runs(); !slices.Equal(runs, []string{"a", "b"}) {
			t.Fatalf("%v", runs)
		}
		a, b, together := both.RunSupport("a", alleles), both.RunSupport("b", alleles), both.Support(alleles)
		for i := range alleles {
			if a[i].Shows+b[i].Shows != together[i].Shows || a[i].Depth+b[i].Depth != together[i].Depth || a[i].Depth == 0 || b[i].Depth == 0 {
				t.Errorf("%+v and %+v, of %+v", a[i], b[i], together[i])
			}
			if left := a[i].Left + b[i].Left; left < together[i].Left-1 || left > together[i].Left+1 || most == 8 && (a[i].Left == 0 || b[i].Left == 0) {
				t.Errorf("%+v and %+v are left, of %+v", a[i], b[i], together[i])
			}
		}
	}
}
