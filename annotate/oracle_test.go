package annotate

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// The independent oracle of these tests is bcftools csq -l (testdata/make_golden.sh). It has fewer terms and other
// habits; folded is what both can agree on, and differences that remain must belong to a class named below.

// bcsqName are bcftools csq's names of terms, both with the names that VEP and csq do not distinguish in one.
var bcsqName = map[string]string{
	"splice_acceptor_variant": "splice_acceptor", "splice_donor_variant": "splice_donor",
	"splice_region_variant": "splice_region", "splice_donor_5th_base_variant": "splice_region", "splice_donor_region_variant": "splice_region",
	"stop_gained": "stop_gained", "stop_lost": "stop_lost", "stop_retained_variant": "stop_retained",
	"start_lost": "start_lost", "start_retained_variant": "start_retained",
	"frameshift_variant": "frameshift", "missense_variant": "missense", "synonymous_variant": "synonymous",
	"coding_sequence_variant": "coding_sequence", "incomplete_terminal_codon_variant": "coding_sequence",
	"5_prime_UTR_variant": "5_prime_utr", "3_prime_UTR_variant": "3_prime_utr",
	// csq distinguishes an inframe insertion from a protein_altering_variant by length only.
	"inframe_insertion": "inframe", "inframe_deletion": "inframe", "protein_altering_variant": "inframe", "inframe_altering": "inframe",
}

// ourTerms are the terms per coding transcript in csq's names.
func ourTerms(cs []Consequence) map[string][]string {
	by := map[string][]string{}
	for _, c := range cs {
		if c.Feature == nil || c.CDNA == "" && c.Intron == "" {
			continue
		}
		for _, t := range c.Terms {
			if n := bcsqName[t.Name]; n != "" {
				by[c.Feature.ID] = append(by[c.Feature.ID], n)
			}
		}
	}
	for id := range by {
		by[id] = folded(by[id])
	}
	return by
}

// bcsqTerms are the terms per transcript of a BCSQ value. csq names no transcript where only an intron or a
// non-coding transcript is touched.
func bcsqTerms(value string) map[string][]string {
	by := map[string][]string{}
	for _, entry := range strings.Split(value, ",") {
		f := strings.Split(entry, "|")
		if len(f) < 4 || f[2] == "" {
			continue
		}
		names := strings.Split(strings.TrimPrefix(f[0], "*"), "&")
		// csq calls a substitution of two codons missense even if the second becomes a stop.
		if len(f) > 5 && f[0] == "missense" && strings.Contains(f[5][strings.Index(f[5], ">")+1:], "*") {
			names = []string{"stop_gained"}
		}
		for _, n := range names {
			if m := bcsqName[n]; m != "" {
				n = m
			}
			by[f[2]] = append(by[f[2]], n)
		}
	}
	for id := range by {
		by[id] = folded(by[id])
	}
	return by
}

// folded drops terms that one of the two does not print beside a more severe one.
func folded(names []string) []string {
	drop := func(list ...string) {
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(list, n) })
	}
	drop("NMD_transcript")
	switch {
	case slices.Contains(names, "start_lost"):
		drop("frameshift", "inframe")
	case slices.Contains(names, "stop_lost"), slices.Contains(names, "stop_retained"):
		drop("frameshift", "inframe", "stop_gained")
	case slices.Contains(names, "frameshift"):
		drop("stop_gained")
	case slices.Contains(names, "stop_gained"):
		drop("inframe", "missense")
	}
	// A change that reaches across the edge of an exon has a new coding sequence only for csq.
	if slices.Contains(names, "splice_donor") || slices.Contains(names, "splice_acceptor") {
		drop("splice_region", "coding_sequence", "frameshift", "inframe", "synonymous", "missense", "5_prime_utr", "3_prime_utr")
	}
	sort.Strings(names)
	return slices.Compact(names)
}

// differenceClass names why ours and csq's folded terms may differ, or is "".
func differenceClass(tx *transcript, pos int, ref, alt string, ours, theirs []string) string {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(n string) bool { return slices.Contains(names, n) })
	}
	indel := len(ref) != len(alt)
	near := func(edge int) bool { // three bases or less, the anchor counted in
		return pos-1 <= edge+3 && pos-1+len(ref) >= edge-3
	}
	switch {
	case slices.Equal(withoutUTR(ours), theirs):
		return "csq knows untranslated regions only by their rows"
	case len(theirs) == 0 && (tx.pad > 0 || tx.cdsLen%3 != 0):
		return "csq leaves out incomplete codons"
	case len(tx.exons) == 1 && has(theirs, "splice_region"):
		return "csq takes the slip of a ribosome for an intron"
	case indel && ref[0] != alt[0]:
		return "csq 1.16 takes the first base of a replacement for an anchor"
	case near(tx.cdsStart) || near(tx.cdsEnd):
		return "start or stop codon"
	case indel && (has(ours, "splice_region", "splice_donor", "splice_acceptor") || has(theirs, "splice_region", "splice_donor", "splice_acceptor")):
		return "indel at the edge of an exon"
	}
	return ""
}

// TestOracle compares the consequences of 19,000 random variants, on a phage, a bacterium, a virus and 30
// excerpts of vertebrate genomes, with those of bcftools csq.
func TestOracle(t *testing.T) {
	sources := map[string]string{"lambda": "", "ecoli": "ecoli-r9", "sarscov2": "sarscov2-r9", "csq": "csq"}
	for name, dir := range sources {
		if _, err := os.Stat(filepath.Join(testenv.Root(t), "..", "shared", "data", dir)); dir != "" && err != nil {
			t.Logf("without %s: %v", name, err)
			delete(sources, name)
		}
	}
	f, err := os.Open(filepath.Join("testdata", "csq.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	annotators := map[string]*Annotator{}
	classes := map[string]int{}
	pairs, snvs := 0, 0
	sc := bufio.NewScanner(gz)
	for sc.Scan() {
		f := strings.Split(sc.Text(), "\t")
		source, _, _ := strings.Cut(f[0], "/")
		if _, ok := sources[source]; !ok {
			continue
		}
		a := annotators[f[0]]
		if a == nil {
			a = oracleAnnotator(t, f[0])
			annotators[f[0]] = a
		}
		pos, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		ann, err := a.Annotate(f[1], pos, f[3], f[4])
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := ourTerms(ann.Consequences), bcsqTerms(f[5])
		aminos := bcsqAminos(f[5])
		for _, tx := range a.model.contigs[a.genome.Contig(f[1])].overlapping(nil, new(foundAt), pos-20, pos+20) {
			o, th := ours[tx.id], theirs[tx.id]
			if tx.cds == nil || otherRules(tx) || len(o) == 0 && len(th) == 0 {
				continue
			}
			pairs++
			snv := len(f[3]) == 1 && len(f[4]) == 1
			if snv {
				snvs++
			}
			if !slices.Equal(o, th) {
				class := differenceClass(tx, pos, f[3], f[4], o, th)
				if class == "" {
					t.Errorf("%s %s:%s %s>%s %s: %v, csq has %v (%s)", f[0], f[1], f[2], f[3], f[4], tx.id, o, th, f[5])
				}
				classes[class]++
				continue
			}
			if want := aminos[tx.id]; snv && want != "" && tx.pad == 0 {
				if got := aminoChange(ann.Consequences, tx.id); got != want {
					t.Errorf("%s %s:%s %s>%s %s: amino acids %s, csq has %s", f[0], f[1], f[2], f[3], f[4], tx.id, got, want)
				}
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	differ := 0
	for class, n := range classes {
		t.Logf("%d differ: %s", n, class)
		differ += n
	}
	t.Logf("%d pairs of variant and transcript, %d of substitutions; %d differ", pairs, snvs, differ)
	if pairs < 8000 || len(sources) == 4 && pairs < 17000 || differ > pairs/100 {
		t.Errorf("%d of %d differ", differ, pairs)
	}
}

// oracleAnnotator loads what a golden row was made with.
func oracleAnnotator(t *testing.T, name string) *Annotator {
	switch name {
	case "lambda":
		return lambda(t)
	case "ecoli":
		return ecoli(t)
	case "sarscov2":
		return sarscov2(t)
	}
	name = strings.TrimPrefix(name, "csq/")
	return load(t, testenv.Recordings(t, "csq"+"/"+name+"/"+name+".fa"), testenv.Recordings(t, "csq"+"/"+name+"/"+name+".gff"))
}

// otherRules reports whether csq treats the transcript by rules that are not ours: gaps too short to be introns count
// as introns there, and introns after an exon that begins with the contig's first base do not.
func otherRules(t *transcript) bool {
	for i := 1; i < len(t.exons); i++ {
		a, b := t.exons[i-1], t.exons[i]
		if gap := max(a.start, b.start) - min(a.end, b.end); gap <= longestNoIntron {
			return true
		}
	}
	return t.start == 0
}

func withoutUTR(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "5_prime_utr" || n == "3_prime_utr" })
}

// bcsqAminos are the changes of amino acids per transcript that a BCSQ value has, as "118E>118K" or "66V".
func bcsqAminos(value string) map[string]string {
	by := map[string]string{}
	for _, entry := range strings.Split(value, ",") {
		if f := strings.Split(entry, "|"); len(f) > 5 && by[f[2]] == "" {
			by[f[2]] = f[5]
		}
	}
	return by
}

// aminoChange writes our change of one amino acid as csq does.
func aminoChange(cs []Consequence, id string) string {
	for _, c := range cs {
		if c.Feature == nil || c.Feature.ID != id {
			continue
		}
		ref, alt, changed := strings.Cut(c.AminoAcids, "/")
		if !changed {
			return c.Protein + ref
		}
		return fmt.Sprintf("%s%s>%s%s", c.Protein, ref, c.Protein, alt)
	}
	return ""
}

// TestCsqCases are the cases of bcftools' own tests, one variant at a time.
func TestCsqCases(t *testing.T) {
	texts, err := filepath.Glob(filepath.Join(testenv.Recordings(t, "csq"), "*", "*.txt*"))
	if err != nil {
		t.Fatal(err)
	}
	agree, all := 0, 0
	classes := map[string]int{}
	for _, text := range texts {
		local := strings.HasSuffix(text, "-l")
		base := strings.TrimSuffix(strings.TrimSuffix(text, "-l"), ".txt")
		if _, err := os.Stat(base + ".vcf"); err != nil {
			continue // a drawing
		}
		if _, err := os.Stat(text + "-l"); !local && err == nil {
			continue // this one is haplotype-aware
		}
		dir := filepath.Dir(text)
		name := filepath.Base(dir)
		a := load(t, filepath.Join(dir, name+".fa"), filepath.Join(dir, name+".gff"))
		data, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
			lines := strings.Split(strings.TrimSpace(block), "\n")
			f := strings.Split(lines[len(lines)-1], "\t")
			pos, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatalf("%s: %q", text, block)
			}
			for _, alt := range strings.Split(f[2], ",") {
				if f[3] == "." || strings.ContainsAny(alt, "<.*") {
					continue // not in the sample, or symbolic
				}
				ann, err := a.Annotate(a.genome.Contigs[0].Name, pos, f[1], alt)
				if err != nil {
					t.Logf("%s: %v", name, err) // the excerpt of the genome ends inside REF
					continue
				}
				ours, theirs := ourTerms(ann.Consequences), bcsqTerms(f[3])
				for _, tx := range a.model.contigs[a.genome.Contigs[0]].transcripts {
					o, th := ours[tx.id], theirs[tx.id]
					if tx.cds == nil || len(o) == 0 && len(th) == 0 || strings.Contains(f[2], ",") && len(th) == 0 {
						continue
					}
					all++
					if slices.Equal(o, th) {
						agree++
						continue
					}
					class := differenceClass(tx, pos, f[1], alt, o, th)
					if otherRules(tx) {
						class = "gaps too short to be introns"
					}
					classes[class]++
					if class == "" {
						t.Errorf("%s/%s %d %s>%s %s: %v, csq has %v (%s)", name, filepath.Base(text), pos, f[1], alt, tx.id, o, th, f[3])
					}
				}
			}
		}
	}
	t.Logf("%d of %d agree; others by class: %v", agree, all, classes)
	if all < 95 || agree < all*9/10 {
		t.Errorf("%d of %d agree", agree, all)
	}
}
