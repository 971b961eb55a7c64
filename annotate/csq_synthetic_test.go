package annotate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// csqClasses bound how often, in a thousand pairs of variant and transcript, our terms and those of bcftools csq may
// differ for each reason.
var csqClasses = map[string]float64{
	"indel at the edge of an exon": 20,
	"start or stop codon":          6,
	"csq looks for the stop at the end of the coding sequence only":     30,
	"csq finds no start and stop codons that an intron splits":          2,
	"csq knows no start codon but ATG":                                  3,
	"csq leaves out incomplete codons":                                  4,
	"csq knows untranslated regions only by their rows":                 3,
	"csq 1.16 takes the first base of a replacement for an anchor":      6,
	"csq judges a replacement across the edge of an exon by all it has": 3,
}

// TestSyntheticCsq compares the consequences of random variants of a made-up set of genes with those that bcftools csq
// gives one variant at a time. PORESTREAM_CASES sets their number.
func TestSyntheticCsq(t *testing.T) {
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("bcftools is not installed")
	}
	set := newGeneSet(99, 2, 150, false)
	a := set.annotator(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fasta, gff, vcf := write("genes.fa", set.fasta), write("genes.gff3", set.gff), write("variants.vcf", sortedVariants(a, cases(t, 20_000)))
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), bcftools, args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("bcftools %s: %v\n%s", strings.Join(args, " "), err, &errs)
		}
		return out.String()
	}
	annotated := filepath.Join(dir, "csq.vcf")
	run("csq", "--force", "-l", "-p", "a", "-f", fasta, "-g", gff, "-o", annotated, vcf)
	classes := map[string]int{}
	pairs, substitutions, differ := 0, 0, 0
	for line := range strings.Lines(run("query", "-f", "%CHROM\t%POS\t%REF\t%ALT\t%BCSQ\n", annotated)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		pos, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		ann, err := a.Annotate(f[0], pos, f[2], f[3])
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := ourTerms(ann.Consequences), bcsqTerms(f[4])
		for _, tx := range a.model.contigs[a.genome.Contig(f[0])].overlapping(nil, new(foundAt), pos-20, pos+20) {
			o, th := ours[tx.id], theirs[tx.id]
			if tx.cds == nil || len(o) == 0 && len(th) == 0 {
				continue
			}
			pairs++
			if len(f[2]) == 1 && len(f[3]) == 1 {
				substitutions++
			}
			if slices.Equal(o, th) {
				continue
			}
			differ++
			class := syntheticClass(tx, pos, f[2], f[3], o, th)
			classes[class]++
			if class == "" {
				t.Errorf("%s:%s %s>%s %s: %v, csq has %v (%s)", f[0], f[1], f[2], f[3], tx.id, o, th, f[4])
			}
		}
	}
	for class, n := range classes {
		t.Logf("%d of %d differ: %s", n, pairs, class)
		if most := csqClasses[class]; float64(n) > most*float64(pairs)/1000 {
			t.Errorf("%d of %d differ: %s; at most %g in a thousand may", n, pairs, class, most)
		}
	}
	if pairs < cases(t, 20_000)/2 {
		t.Errorf("only %d pairs of variant and transcript", pairs)
	}
	t.Logf("%d pairs of variant and transcript, %d of substitutions, %d differ", pairs, substitutions, differ)
}

// syntheticClass is differenceClass with the reasons that real genes have no cause for.
func syntheticClass(tx *transcript, pos int, ref, alt string, ours, theirs []string) string {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(n string) bool { return slices.Contains(names, n) })
	}
	replacement := len(ref) == len(alt) && len(ref) > 1
	split := func(piece segment) bool { return piece.end-piece.start < 3 }
	cds := tx.coding()
	switch {
	case stopInside(tx):
		return "csq looks for the stop at the end of the coding sequence only"
	case has(ours, "start_lost", "start_retained") && string(cds[:3]) != "ATG":
		return "csq knows no start codon but ATG"
	case len(tx.cds) > 1 && (split(tx.cds[0]) && has(ours, "start_lost", "start_retained") || split(tx.cds[len(tx.cds)-1]) && has(ours, "stop_lost", "stop_retained")):
		return "csq finds no start and stop codons that an intron splits"
	case tx.cdsLen%3 != 0 && slices.Equal(theirs, slices.DeleteFunc(slices.Clone(ours), func(n string) bool { return n == "coding_sequence" })):
		return "csq leaves out incomplete codons"
	case replacement && has(theirs, "splice_donor", "splice_acceptor"):
		return "csq judges a replacement across the edge of an exon by all it has"
	}
	return differenceClass(tx, pos, ref, alt, ours, theirs)
}

// stopInside reports whether the coding sequence has a stop before its last codon.
func stopInside(tx *transcript) bool {
	for i := 0; 3*i+3 < tx.cdsLen; i++ {
		if tx.reference(i) == '*' {
			return true
		}
	}
	return false
}

// sortedVariants are random changes as VCF: left-aligned, in normal form and in order, each once.
func sortedVariants(a *Annotator, n int) string {
	rng := rand.New(rand.NewPCG(29, 1))
	var b strings.Builder
	b.WriteString("##fileformat=VCFv4.2\n")
	contigs := layOut(a)
	for _, x := range contigs {
		fmt.Fprintf(&b, "##contig=<ID=%s,length=%d>\n", x.name, len(x.seq))
	}
	b.WriteString("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
	for _, x := range contigs {
		seen := map[string]bool{}
		var rows []change
		for range n / len(contigs) {
			c := randomChange(rng, []byte(x.seq), x.places)
			if x.seq[c.start:c.end] == c.alt {
				continue
			}
			c = placements(x.seq, c)[0]
			if c.start == c.end || c.alt == "" {
				if c.start == 0 {
					continue // there is no base before it
				}
				c.start--
				c.alt = x.seq[c.start:c.start+1] + c.alt
			}
			if key := fmt.Sprint(c); !seen[key] {
				seen[key] = true
				rows = append(rows, c)
			}
		}
		slices.SortFunc(rows, func(c, d change) int { return c.start - d.start })
		for _, c := range rows {
			fmt.Fprintf(&b, "%s\t%d\t.\t%s\t%s\t.\t.\t.\n", x.name, c.start+1, x.seq[c.start:c.end], c.alt)
		}
	}
	return b.String()
}
