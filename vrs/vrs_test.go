package vrs

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDigestVectors holds the vectors of the VRS specification's validation files.
func TestDigestVectors(t *testing.T) {
	for in, want := range map[string]string{
		"":     "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXc",
		"ACGT": "aKF498dAxcJAqme6QYQ7EZ07-fiw8Kw2",
	} {
		if got := Digest([]byte(in)); got != want {
			t.Errorf("Digest(%q) = %s, want %s", in, got, want)
		}
	}
	// rs7412 C>T on GRCh38 chromosome 19.
	const chr19 = "SQ.IIB53T8CNeJJdUqzn9V_JnRtQadwWCbl"
	a := Allele{Start: 44908821, End: 44908822, Sequence: "T"}
	if got, want := a.LocationDigest(chr19), "wIlaGykfwHIpPY2Fcxtbx4TINbbODFVz"; got != want {
		t.Errorf("location digest = %s, want %s", got, want)
	}
	if got, want := a.ID(chr19), "ga4gh:VA.0AePZIWZUNsUlQTamyLrjm2HWUw2opLt"; got != want {
		t.Errorf("allele id = %s, want %s", got, want)
	}
}

// TestAlleleVectors holds the alleles of the VRS 2 specification's validation/alleles.yaml (ga4gh/vrs, Apache-2.0): what
// is serialised and its identifier. A reference allele without a repeat unit, which is no variant, is
// left out.
func TestAlleleVectors(t *testing.T) {
	for _, c := range []struct {
		name, sequence string
		allele         Allele
		id             string
	}{
		{"rs7412 T", "SQ.IIB53T8CNeJJdUqzn9V_JnRtQadwWCbl",
			Allele{Start: 44908821, End: 44908822, Sequence: "T"}, "0AePZIWZUNsUlQTamyLrjm2HWUw2opLt"},
		{"NC_000001.11:40819438:CTCCTCCT:CTCCTCCTCCT", "SQ.Ya6Rs7DHhDeg7YaOSg1EoNi3U_nQ9SvO",
			Allele{Start: 40819438, End: 40819446, Derived: true, Length: 11, RepeatSubunit: 3}, "Oop4kjdTtKcg1kiZjIJAAR3bp7qi4aNT"},
		// The file has 43044295 as the start, but the identifier of what the name says, as the reference implementation.
		{"NC_000017.10:g.43044295_43044296delinsAT", "SQ.AjWXsI7AkTK35XW9pgd3UbjpC3MAevlz",
			Allele{Start: 43044294, End: 43044296, Sequence: "AT"}, "jJJ7H5HnJl0J9K7QZupDitGpTCVwV8BU"},
		{"NM_032635.4:c.542_543delinsCCACAG", "SQ.7zfORBjp444qyMRKqvr0mCW1Kgtj82pH",
			Allele{Start: 655, End: 657, Sequence: "CCACAG"}, "lWcq5vDX0OIXR3CVDxVxU72aj-kU1UVt"},
		{"NM_007294.4:c.*528G>C", "SQ.oR9jzdHf6J23TozeyuvTXtwlm6PpUHHl",
			Allele{Start: 6232, End: 6233, Sequence: "C"}, "7DMgCvXnZCBIrm9FOFtS1JZyZ4RM5f9N"},
		{"NC_000017.11:43045571:GACAG:G", "SQ.dLZ15tNO1Ur0IcGjwc3Sdi_0A6Yf4zm7",
			Allele{Start: 43045571, End: 43045576, Derived: true, Length: 1, RepeatSubunit: 4}, "wqSJ6wZXwjensLdk5XNo2YldiDUYfrKa"},
		{"NC_000008.11:g.38148689_38148693del", "SQ.209Z7zJ-mFypBEWLk4rNC6S_OxY5p7bs",
			Allele{Start: 38148684, End: 38148693, Derived: true, Length: 4, RepeatSubunit: 5}, "4GjeORfLxGnNzZhQrYQLL4SRt6teQJ2q"},
		{"NC_000004.12:g.41745947_41746015del", "SQ.HxuclGHh0XCDuF8x6yQrpHUBL7ZntAHc",
			Allele{Start: 41745945, End: 41746015, Derived: true, Length: 1, RepeatSubunit: 69}, "70_wlPlnVy0bP8GxbBOn9xDU3YJTs_rA"},
	} {
		if got, want := c.allele.ID(c.sequence), "ga4gh:VA."+c.id; got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
	if got, want := (Allele{Start: 40819438, End: 40819446}).LocationDigest("SQ.Ya6Rs7DHhDeg7YaOSg1EoNi3U_nQ9SvO"), "nQGBuvRQOLEboA5TYtcz975fp_GulxbZ"; got != want {
		t.Errorf("location digest %s, want %s", got, want)
	}
}

// TestNormalizeVectors are the specification's examples whose sequence is given, brought to their fully justified form.
func TestNormalizeVectors(t *testing.T) {
	for _, c := range []struct {
		seq      string
		pos      int
		ref, alt string
		want     Allele
	}{
		{"GCTCCTCCTG", 1, "", "CTC", Allele{Start: 1, End: 9, Derived: true, Length: 11, RepeatSubunit: 3}},
		{"TGACAGTTTT", 2, "ACAG", "", Allele{Start: 1, End: 6, Derived: true, Length: 1, RepeatSubunit: 4}},
	} {
		got, err := Normalize([]byte(c.seq), c.pos, c.ref, c.alt)
		if err != nil || got != c.want {
			t.Errorf("%s %d:%s>%s: %+v %v, want %+v", c.seq, c.pos, c.ref, c.alt, got, err, c.want)
		}
	}
}

// TestReferenceImplementation compares identifiers with those of the GA4GH reference implementation
// (testdata/make_golden.py).
func TestReferenceImplementation(t *testing.T) {
	data, err := os.ReadFile("testdata/alleles.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(rows) < 1000 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		f := strings.Split(row, "\t")
		start, _ := strconv.Atoi(f[2])
		end, _ := strconv.Atoi(f[3])
		seq, alt := f[0], f[4]
		if got := SequenceDigest([]byte(seq)); got != f[1] {
			t.Fatalf("sequence digest of %s = %s, want %s", seq, got, f[1])
		}
		a, err := Normalize([]byte(seq), start, seq[start:end], alt)
		if err != nil {
			t.Fatal(err)
		}
		id, err := AlleleID(f[1], []byte(seq), start, seq[start:end], alt)
		if err != nil {
			t.Fatal(err)
		}
		if id != f[5] || strconv.Itoa(a.Start) != f[6] || strconv.Itoa(a.End) != f[7] {
			t.Errorf("%s %d:%s>%s: %s %+v, want %s %s-%s", seq, start, seq[start:end], alt, id, a, f[5], f[6], f[7])
		}
	}
}

func TestAlleleIDRefuses(t *testing.T) {
	seq := []byte("ACGTACGT")
	for _, c := range []struct {
		pos      int
		ref, alt string
		want     string
	}{
		{-1, "A", "C", "outside the sequence of 8"},
		{8, "A", "C", "outside the sequence of 8"},
		{7, "TT", "C", "outside the sequence of 8"},
		{0, "C", "T", `the sequence has "A"`},
		{0, "A", "t", "not an upper-case residue"},
		{0, "A", `"`, "not an upper-case residue"},
		{0, "A", "<DEL>", "not an upper-case residue"},
	} {
		if _, err := AlleleID("SQ.x", seq, c.pos, c.ref, c.alt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("AlleleID(%d, %q, %q): error %v, want one with %q", c.pos, c.ref, c.alt, err, c.want)
		}
	}
}

func TestEditForms(t *testing.T) {
	const seq = "TGCACACATTTG"
	for _, c := range []struct {
		name                string
		in                  Edit
		left, right, normal Edit
	}{
		{"snv", Edit{2, "C", "G"}, Edit{2, "C", "G"}, Edit{2, "C", "G"}, Edit{2, "C", "G"}},
		{"snv with flanks", Edit{1, "GCA", "GTA"}, Edit{2, "C", "T"}, Edit{2, "C", "T"}, Edit{2, "C", "T"}},
		{"deletion in repeat", Edit{4, "CA", ""}, Edit{2, "CA", ""}, Edit{6, "CA", ""}, Edit{1, "GCA", "G"}},
		{"rotated unit", Edit{3, "AC", ""}, Edit{2, "CA", ""}, Edit{6, "CA", ""}, Edit{1, "GCA", "G"}},
		{"insertion in run", Edit{9, "T", "TT"}, Edit{8, "", "T"}, Edit{11, "", "T"}, Edit{7, "A", "AT"}},
		{"delins", Edit{8, "TT", "CG"}, Edit{8, "TT", "CG"}, Edit{8, "TT", "CG"}, Edit{8, "TT", "CG"}},
		{"delins of other length", Edit{8, "TT", "CGA"}, Edit{8, "TT", "CGA"}, Edit{8, "TT", "CGA"}, Edit{8, "TT", "CGA"}},
		{"first base deleted", Edit{0, "T", ""}, Edit{0, "T", ""}, Edit{0, "T", ""}, Edit{0, "TG", "G"}},
		{"before the first base", Edit{0, "", "C"}, Edit{0, "", "C"}, Edit{0, "", "C"}, Edit{0, "T", "CT"}},
		{"after the last base", Edit{12, "", "A"}, Edit{12, "", "A"}, Edit{12, "", "A"}, Edit{11, "G", "GA"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.in.Left([]byte(seq)); got != c.left {
				t.Errorf("Left = %+v, want %+v", got, c.left)
			}
			if got := c.in.Right([]byte(seq)); got != c.right {
				t.Errorf("Right = %+v, want %+v", got, c.right)
			}
			if got := c.in.Normal([]byte(seq)); got != c.normal {
				t.Errorf("Normal = %+v, want %+v", got, c.normal)
			}
		})
	}
}

// apply is the sequence after the edit.
func apply(seq string, e Edit) string { return seq[:e.Start] + e.Alt + seq[e.End():] }

// TestEverySpellingIsOneAllele enumerates all spellings of random changes (every interval and allele that gives the
// same sequence within a small flank) and requires one identifier and one of each normal form for all of them.
func TestEverySpellingIsOneAllele(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "AC"[rng.IntN(2)] // two letters make many repeats
		}
		return string(b)
	}
	for range 500 {
		seq := random(12)
		start := rng.IntN(12)
		end := min(12, start+rng.IntN(4))
		e := Edit{start, seq[start:end], random(rng.IntN(4))}
		if e.Ref == e.Alt {
			continue
		}
		result := apply(seq, e)
		id, err := AlleleID("SQ.x", []byte(seq), e.Start, e.Ref, e.Alt)
		if err != nil {
			t.Fatal(err)
		}
		left, right, normal := e.Left([]byte(seq)), e.Right([]byte(seq)), e.Normal([]byte(seq))
		for _, form := range []Edit{left, right, normal} {
			if apply(seq, form) != result {
				t.Fatalf("%+v on %s became %+v: another sequence", e, seq, form)
			}
		}
		if e.Trim().moved() == "" {
			continue // a delins may be split from its flanks in more than one minimal way
		}
		for s := 0; s <= len(seq); s++ {
			for l := 0; s+l <= len(seq); l++ {
				n := len(result) - (len(seq) - l)
				if n < 0 || s+n > len(result) || result[:s] != seq[:s] || result[s+n:] != seq[s+l:] {
					continue
				}
				other := Edit{s, seq[s : s+l], result[s : s+n]}
				oid, err := AlleleID("SQ.x", []byte(seq), other.Start, other.Ref, other.Alt)
				if err != nil {
					t.Fatal(err)
				}
				if oid != id || other.Left([]byte(seq)) != left || other.Right([]byte(seq)) != right || other.Normal([]byte(seq)) != normal {
					t.Fatalf("%s: %+v and %+v give the same sequence but differ: %s %s", seq, e, other, id, oid)
				}
			}
		}
	}
}

func BenchmarkAlleleID(b *testing.B) {
	seq := []byte(strings.Repeat("ACGTTGCATGTCGCATGATGCATGAGAGCT", 1000))
	for _, c := range []struct{ name, ref, alt string }{{"snv", "A", "G"}, {"deletion", "ACG", "A"}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := AlleleID("SQ.IIB53T8CNeJJdUqzn9V_JnRtQadwWCbl", seq, 3000, c.ref, c.alt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
