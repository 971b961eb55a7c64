package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/testenv"
)

// BenchmarkAnnotate runs pore annotate and bcftools csq on the same variants, genes and reference, whole processes
// with all that they load, one after the other. The ratios are of variants a second of wall time, pore's to csq's:
// with --distance 0 both report what overlaps a transcript; with the default of 5000 pore writes many times as much.
// cpu-csq and cpu-bcsq are the processor time of CSQ without genes beside the variant, and of BCSQ, pore's to that of csq; user-csq
// is without the kernel's share.
func BenchmarkAnnotate(b *testing.B) {
	csq, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			b.Fatal("bcftools is needed")
		}
		b.Skip("bcftools is not installed")
	}
	pore := filepath.Join(b.TempDir(), "pore")
	if out, err := exec.Command("go", "build", "-o", pore, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, set := range []struct {
		name string
		make func(testing.TB) annotationSet
	}{{"ecoli", ecoliSet}, {"human-like", humanLikeSet}} {
		b.Run(set.name, func(b *testing.B) {
			s := set.make(b)
			var times, processor, user [5][]float64
			var memory [5]float64
			commands := [5][]string{
				{csq, "csq", "--local-csq", "--force", "--fasta-ref", s.reference, "--gff-annot", s.genes, "--output", filepath.Join(s.dir, "csq.vcf"), s.variants},
				{pore, "annotate", "--log-level", "ERROR", "--distance", "0", "--ref", s.reference, "--gff", s.genes, "--output", filepath.Join(s.dir, "near.vcf"), s.variants},
				{pore, "annotate", "--log-level", "ERROR", "--ref", s.reference, "--gff", s.genes, "--output", filepath.Join(s.dir, "all.vcf"), s.variants},
				{csq, "csq", "--force", "--fasta-ref", s.reference, "--gff-annot", s.genes, "--output", filepath.Join(s.dir, "haplotypes.vcf"), s.variants},
				{pore, "annotate", "--log-level", "ERROR", "--fields", "bcsq", "--ref", s.reference, "--gff", s.genes, "--output", filepath.Join(s.dir, "bcsq.vcf"), s.variants},
			}
			for b.Loop() {
				for i, args := range commands {
					m := measured(b, args)
					times[i], processor[i], user[i] = append(times[i], m.seconds), append(processor[i], m.cpu), append(user[i], m.user)
					memory[i] = max(memory[i], m.mebibytes)
				}
			}
			var best [5]float64 // the machine's noise only ever adds
			for i := range times {
				best[i] = slices.Min(times[i])
			}
			n := float64(s.count)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(n/best[0], "csq-variants/s")
			b.ReportMetric(n/best[1], "variants/s")
			b.ReportMetric(n/best[2], "variants/s-5kb")
			b.ReportMetric(best[0]/best[1], "ratio")
			b.ReportMetric(best[0]/best[2], "ratio-5kb")
			b.ReportMetric(slices.Min(user[1])/slices.Min(user[0]), "user-csq")
			b.ReportMetric(slices.Min(processor[1])/slices.Min(processor[0]), "cpu-csq")
			b.ReportMetric(slices.Min(processor[4])/slices.Min(processor[3]), "cpu-bcsq")
			b.ReportMetric(memory[0], "csq-MiB")
			b.ReportMetric(memory[1], "MiB")
			b.ReportMetric(memory[2], "MiB-5kb")
			b.ReportMetric(memory[4], "MiB-bcsq")
		})
	}
}

// measurement is what a command took: wall time, processor time with and without the kernel's share, and its greatest memory.
type measurement struct{ seconds, cpu, user, mebibytes float64 }

// measured runs a command.
func measured(b *testing.B, args []string) measurement {
	b.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var m measurement
	for {
		select {
		case err := <-done:
			if err != nil {
				b.Fatalf("%v: %v\n%s", args, err, stderr.String())
			}
			m.seconds, m.user = time.Since(begun).Seconds(), cmd.ProcessState.UserTime().Seconds()
			m.cpu = m.user + cmd.ProcessState.SystemTime().Seconds()
			return m
		case <-time.After(5 * time.Millisecond):
			m.mebibytes = max(m.mebibytes, highWater(cmd.Process.Pid))
		}
	}
}

// highWater is the most memory that a running process had so far, in MiB. The kernel's figure for one that has
// ended includes its parent's.
func highWater(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, value, _ := strings.Cut(string(status), "VmHWM:")
	var kibibytes float64
	fmt.Sscan(value, &kibibytes)
	return kibibytes / 1024
}

// annotationSet are the inputs of one benchmark.
type annotationSet struct {
	dir, reference, genes, variants string
	count                           int
}

// contig is a sequence in the making.
type contig struct {
	name string
	seq  []byte
}

// variantCount is how many variants a set has: so many that loading counts little.
const variantCount = 500_000

// write puts the set into files.
func (s *annotationSet) write(b testing.TB, contigs []contig, genes []byte) {
	b.Helper()
	s.dir = b.TempDir()
	s.reference, s.genes, s.variants = filepath.Join(s.dir, "ref.fa"), filepath.Join(s.dir, "genes.gff3"), filepath.Join(s.dir, "variants.vcf")
	s.count = variantCount
	var fa, fai bytes.Buffer
	for _, c := range contigs {
		fmt.Fprintf(&fa, ">%s\n", c.name)
		fmt.Fprintf(&fai, "%s\t%d\t%d\t60\t61\n", c.name, len(c.seq), fa.Len())
		for line := range slices.Chunk(c.seq, 60) {
			fa.Write(line)
			fa.WriteByte('\n')
		}
	}
	for path, text := range map[string][]byte{
		s.reference: fa.Bytes(), s.reference + ".fai": fai.Bytes(), s.genes: genes, s.variants: randomVCF(contigs, s.count),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// randomVCF has n variants spread evenly over the contigs: four of five substitutions, the others short insertions
// and deletions.
func randomVCF(contigs []contig, n int) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	total := 0
	var out bytes.Buffer
	out.WriteString("##fileformat=VCFv4.2\n")
	for _, c := range contigs {
		total += len(c.seq)
		fmt.Fprintf(&out, "##contig=<ID=%s,length=%d>\n", c.name, len(c.seq))
	}
	out.WriteString("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
	for _, c := range contigs {
		share := int(int64(n) * int64(len(c.seq)) / int64(total))
		step := (len(c.seq) - 40) / share
		for i := range share {
			pos := 20 + i*step + rng.IntN(step)
			ref, alt := c.seq[pos:pos+1], []byte(nil)
			switch rng.IntN(10) {
			case 0:
				alt = append(alt, ref[0])
				for range 1 + rng.IntN(4) {
					alt = append(alt, "ACGT"[rng.IntN(4)])
				}
			case 1:
				ref = c.seq[pos : pos+2+rng.IntN(4)]
				alt = ref[:1]
			default:
				alt = []byte{"ACGT"[(strings.IndexByte("ACGT", ref[0])+1+rng.IntN(3))%4]}
			}
			fmt.Fprintf(&out, "%s\t%d\t.\t%s\t%s\t50\tPASS\tDP=%d\n", c.name, pos+1, ref, alt, 10+rng.IntN(90))
		}
	}
	return out.Bytes()
}

// ecoliSet is E. coli with its RefSeq genes, rewritten as Ensembl does, which is what csq reads.
func ecoliSet(b testing.TB) annotationSet {
	b.Helper()
	dir := testenv.Recordings(b, "ecoli-r9")
	var c contig
	eachLine(b, filepath.Join(dir, "MG1655.fa.gz"), func(line string) {
		if name, ok := strings.CutPrefix(line, ">"); ok {
			c.name, _, _ = strings.Cut(name, " ")
			return
		}
		c.seq = append(c.seq, line...)
	})
	var s annotationSet
	s.write(b, []contig{c}, ensemblRows(b, filepath.Join(dir, "genes.gff3.gz")))
	return s
}

// eachLine calls f for each line of a gzipped file.
func eachLine(b testing.TB, path string, f func(string)) {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f(lines.Text())
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
}

// ensemblRows rewrites NCBI's rows, a CDS right under its gene, with a transcript and an exon between them.
func ensemblRows(b testing.TB, path string) []byte {
	b.Helper()
	out := bytes.NewBufferString("##gff-version 3\n")
	genes := map[string]string{} // names by ID
	seen := map[string]bool{}
	eachLine(b, path, func(line string) {
		col := strings.Split(line, "\t")
		if len(col) != 9 {
			return
		}
		attributes := map[string]string{}
		for a := range strings.SplitSeq(col[8], ";") {
			k, v, _ := strings.Cut(a, "=")
			attributes[k] = v
		}
		row := func(kind, phase, attributes string) {
			fmt.Fprintf(out, "%s\tx\t%s\t%s\t%s\t.\t%s\t%s\t%s\n", col[0], kind, col[3], col[4], col[6], phase, attributes)
		}
		id := strings.TrimPrefix(attributes["ID"], "gene-")
		switch {
		case col[2] == "gene" && attributes["gene_biotype"] == "protein_coding":
			genes[id] = attributes["Name"]
			row("gene", ".", "ID=gene:"+id+";Name="+attributes["Name"]+";biotype=protein_coding")
		case col[2] == "CDS" && attributes["pseudo"] != "true":
			gene, tx := strings.TrimPrefix(attributes["Parent"], "gene-"), strings.TrimPrefix(id, "cds-")
			if genes[gene] == "" || seen[tx] { // the few of more than one segment are left out with the others of theirs
				return
			}
			seen[tx] = true
			row("mRNA", ".", "ID=transcript:"+tx+";Parent=gene:"+gene+";biotype=protein_coding")
			row("exon", ".", "Parent=transcript:"+tx)
			row("CDS", col[7], "ID=CDS:"+tx+";Parent=transcript:"+tx)
		}
	})
	return out.Bytes()
}

// humanLikeSet is 100 Mb in five contigs with 20,000 transcripts of 5,000 genes: on both strands, with up to 14
// exons, codons split by introns, untranslated ends, and one gene of five not coding.
func humanLikeSet(b testing.TB) annotationSet {
	b.Helper()
	rng := rand.New(rand.NewPCG(20, 26))
	const genesPerContig, space = 1000, 20_000
	genes := bytes.NewBufferString("##gff-version 3\n")
	var contigs []contig
	for n := range 5 {
		c := contig{name: strconv.Itoa(n + 1), seq: make([]byte, genesPerContig*space)}
		for i := range c.seq {
			c.seq[i] = "ACGT"[rng.IntN(4)]
		}
		for g := range genesPerContig {
			writeGene(genes, rng, &c, n*genesPerContig+g, g*space+500)
		}
		contigs = append(contigs, c)
	}
	var s annotationSet
	s.write(b, contigs, genes.Bytes())
	return s
}

// writeGene writes a gene that begins at start with four transcripts that skip different exons.
func writeGene(out io.Writer, rng *rand.Rand, c *contig, number, start int) {
	strand, coding := "+-"[rng.IntN(2):][:1], rng.IntN(5) > 0
	biotype := "lncRNA"
	if coding {
		biotype = "protein_coding"
	}
	type exon struct{ start, end int }
	var exons []exon
	for at := start; len(exons) < 3+rng.IntN(12); {
		x := exon{at, at + 90 + 3*rng.IntN(50)} // whole codons, so that a skipped exon keeps the frame
		exons = append(exons, x)
		at = x.end + 150 + rng.IntN(1500)
		if at > start+17_000 {
			break
		}
	}
	last := len(exons) - 1
	// Coding from base 31 of the first exon to base 31 of the last one, so that introns split codons.
	from, to := exons[0].start+31, exons[last].start+31
	row := func(kind string, start, end int, phase, attributes string) {
		fmt.Fprintf(out, "%s\tx\t%s\t%d\t%d\t.\t%s\t%s\t%s\n", c.name, kind, start+1, end, strand, phase, attributes)
	}
	row("gene", exons[0].start, exons[last].end, ".", fmt.Sprintf("ID=gene:G%05d;Name=GENE%d;biotype=%s", number, number, biotype))
	for k := range 4 {
		id := fmt.Sprintf("T%05d.%d", number, k)
		kept := slices.Clone(exons)
		if k > 0 && len(kept) > 3 {
			kept = slices.Delete(kept, k, k+1)
		}
		kind := map[bool]string{true: "mRNA", false: "lnc_RNA"}[coding]
		row(kind, exons[0].start, exons[last].end, ".", "ID=transcript:"+id+";Parent=gene:"+fmt.Sprintf("G%05d", number)+";biotype="+biotype)
		total := 0
		for _, x := range kept {
			total += max(0, min(x.end, to)-max(x.start, from))
		}
		done := 0
		for _, x := range kept {
			row("exon", x.start, x.end, ".", "Parent=transcript:"+id)
			s, e := max(x.start, from), min(x.end, to)
			if !coding || s >= e {
				continue
			}
			before := done
			if strand == "-" {
				before = total - done - (e - s)
			}
			row("CDS", s, e, strconv.Itoa((3-before%3)%3), "ID=CDS:"+id+";Parent=transcript:"+id)
			done += e - s
		}
	}
}
