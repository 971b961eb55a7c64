package annotate

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tsvLines are the rows of a gzipped file, without its header.
func tsvLines(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for sc := bufio.NewScanner(gz); sc.Scan(); {
		rows = append(rows, strings.Split(sc.Text(), "\t"))
	}
	return rows[1:]
}

// TestBiocommons compares with biocommons hgvs, whose answers testdata/hgvs/make_golden.py wrote down. Every difference
// must belong to a class that is named here.
func TestBiocommons(t *testing.T) {
	dir := filepath.Join("testdata", "hgvs")
	n := readNormalizer(t, filepath.Join(dir, "genes.fa.gz"), filepath.Join(dir, "genes.gff3.gz"))
	same, classes := 0, map[string]int{}
	for _, row := range tsvLines(t, filepath.Join(dir, "golden.tsv.gz")) {
		input, wantG, wantC, wantP := row[0], row[1], row[2], row[3]
		if strings.HasPrefix(wantG, "!") {
			classes["biocommons fails"]++
			continue
		}
		got, err := n.Normalize(input)
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if strings.HasSuffix(got.Genomic, "=") && strings.HasSuffix(input, "inv") {
			classes["an inversion that changes nothing, which biocommons loses"]++
			continue
		}
		c, err := n.Normalize(wantC)
		if err != nil {
			if !strings.Contains(err.Error(), "say on which side of it the insertion is") {
				t.Errorf("%s: %s: %v", input, wantC, err)
			}
			classes["biocommons loses on which side of an intron an insertion is"]++
			continue
		}
		if c.Genomic != got.Genomic || lociOf(c) != lociOf(got) {
			t.Errorf("%s: it is %s, but %s is %s", input, got.Genomic, wantC, c.Genomic)
		}
		for _, class := range []string{
			classOfDNA(got.Genomic, wantG), classOfDNA(c.Description, wantC), classOfProtein(c.Protein, wantP, c.Description),
		} {
			if class == "" {
				t.Errorf("%s: have %s %s %s, want %s %s %s", input, got.Genomic, c.Description, c.Protein, wantG, wantC, wantP)
			}
			classes[class]++
			if class == "the same" {
				same++
			}
		}
	}
	for class, count := range classes {
		t.Logf("%5d %s", count, class)
	}
	if same < 9000 {
		t.Errorf("only %d descriptions are the same", same)
	}
}

// classOfDNA names why two descriptions of one variant differ, "" if that cannot be explained.
func classOfDNA(have, want string) string {
	_, positions, _ := strings.Cut(have+want, ".")
	switch {
	case have == want:
		return "the same"
	case strings.HasSuffix(have, "]") && strings.Contains(want, "ins"):
		return "several new copies of a unit are a repeat"
	case strings.Contains(have, ":c.") && strings.ContainsAny(strings.NewReplacer("c.-", "-", "_9", "").Replace(positions), "+-*"):
		return "biocommons does not move changes in introns, nor across the edges of exons and of the coding sequence"
	}
	return ""
}

// classOfProtein names why two descriptions of a protein differ.
func classOfProtein(have, want, c string) string {
	bare := func(p string) string {
		_, p, _ = strings.Cut(p, ":p.")
		return strings.Trim(p, "()")
	}
	h, w := bare(have), bare(want)
	switch {
	case h == w:
		return "the same"
	case (h == "" || h == "=") && w == "?":
		return "untranslated and intronic changes do not change the protein, or nothing is said of it near a splice site"
	case w == "Met1?" && (h == "" || h == "=" || h == "Met1=" || strings.HasSuffix(c, "dup")):
		return "the sequence before the change begins with the same start codon still"
	case h == "=" && strings.Contains(c, "-"):
		return "an insertion before the start codon leaves it as it is"
	case w == "?":
		return "biocommons gives up at the edges of exons"
	case h == "?" && strings.ContainsAny(c, "+-"):
		return "the change may hit the splice site instead"
	case strings.HasSuffix(h, "=") && (strings.HasSuffix(w, "=") || strings.Contains(w, "Ter")):
		return "nothing changes, said of all residues"
	case h == "" && w == "=":
		return "a change behind the stop codon"
	case strings.Contains(w, "delins") && strings.HasSuffix(h, "Ter") && strings.HasPrefix(w, h):
		return "nothing is translated behind a new stop"
	case strings.Contains(w, "delins") && strings.Contains(w, "_Ter") && strings.Contains(h, "fsTer"):
		return "what takes the stop away with residues before it is described as a shift"
	case strings.HasSuffix(h, "dup") && strings.Contains(w, "ext"):
		return "a duplication of the last residues is one"
	}
	return ""
}
