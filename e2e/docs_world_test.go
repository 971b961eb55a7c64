package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/signal/pod5"
	"github.com/porestream/porestream/stream/streamtest"
)

// pieceBases is how much of a read is kept on either side of the SNPs that the recording of the documents shows.
const pieceBases = 700

// writePieces writes a small recording: pieces of the shipped one's reads around two of its SNPs, so many that both are called, from ten
// channels within seconds.
func writePieces(t testing.TB, path string) {
	t.Helper()
	length := len(aligntest.LambdaGenome(t).Contigs[0].Seq)
	type alignment struct {
		start, end int // on the reference
		reverse    bool
	}
	reads := make(map[string]alignment)
	for _, s := range aligntest.Lambda(t, "run", "s") { // one for each region of a read
		extent, err := align.Check(s, length)
		require.NoError(t, err)
		id := strings.ReplaceAll(s.GetReadId(), "-", "")
		start, end := int(s.GetStart()), int(s.GetStart())+extent.Reference
		if whole, known := reads[id]; known {
			start, end = min(start, whole.start), max(end, whole.end)
		}
		if !s.GetSupplementary() {
			reads[id] = alignment{start, end, s.GetReverse()}
		}
	}
	written := 0
	rewrite(t, path, func(r *pod5.Read, samples []int16) ([]int16, bool) {
		whole, aligned := reads[fmt.Sprintf("%x", r.ID)]
		from, to := 37_589-pieceBases-whole.start, 37_742+pieceBases-whole.start
		if bases := whole.end - whole.start; !aligned || from < 0 || to > bases {
			return nil, false
		} else if whole.reverse {
			from, to = bases-to, bases-from
		}
		scale := float64(len(samples)) / float64(whole.end-whole.start)
		piece := samples[int(float64(from)*scale):int(float64(to)*scale)]
		r.Channel, r.Number, r.Start, r.Samples = uint32(written%10+1), uint32(written/10+1), uint64(written/10*40_000+400*written), uint64(len(piece))
		written++
		return piece, true
	})
	require.Greater(t, written, 8)
}

// baseFiles makes what documents name of the recording, the reference and the genes, as their readers would, and a broker's log that a run is in.
const baseFiles = `
mkdir -p run1 reads recordings data/run1/pod5 data/run1/fastq_pass models var/spool etc/porestream srv
for folder in run1 reads recordings data/run1/pod5; do cp reads.pod5 $folder/; done
for name in reference genome lambda assembly NEB; do cp ref.fa $name.fa; done
pore basecall reads.pod5 > reads.fastq
gzip -k reads.fastq
pore align --ref ref.fa -o reads.bam reads.fastq
pore call --ref ref.fa -o calls.vcf.gz reads.bam
gzip -dc calls.vcf.gz > calls.vcf
pore call --ref ref.fa --gvcf -o calls.g.vcf.gz reads.bam
pore model convert --out 5mCG.onnx --basecaller any "$TESTDATA/../cmd/pore/testdata/dna_r9.4.1_e8_fast@v3.4_5mCG@v0"
pore basecall --modified-bases 5mCG.onnx reads.pod5 > modified.fastq
pore align --ref ref.fa -y -o reads.sorted.bam modified.fastq
gzip -c modified.fastq > data/run1/fastq_pass/reads.fastq.gz
pore broker --listen 127.0.0.1:0 --data broker > broker.txt &
broker=$!
processor=
trap 'kill $broker $processor' EXIT
until grep -q ' on ' broker.txt; do sleep 0.05; done
address=$(sed -n 's/.* on \(127[^,]*\),.*/\1/p' broker.txt)
pore topics create --brokers $address --partitions 3
ingest --brokers $address --listen 127.0.0.1:0 reads.pod5
processor --brokers $address --listen 127.0.0.1:0 --ref ref.fa --gff genes.gff3 --panel panel.yaml --gvcf --callable --basecalls \
	--modified-bases 5mCG.onnx --methylation 2> processor.txt &
processor=$!
until pore consume --brokers $address --format callable --ref ref.fa > callable.bed 2> waiting.txt; do sleep 0.2; done
until pore consume --brokers $address --until-end --alerts | grep -q NOT_CALLABLE; do sleep 0.2; done
kill $processor
wait $processor
kill $broker
wait $broker
trap - EXIT
rm *.txt
`

var (
	onceBase sync.Once // of baseWorld
	baseOK   bool
)

// baseWorld is a folder with what documents name; each page has a copy. All tests share one.
func baseWorld(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(bin, "docs")
	onceBase.Do(func() {
		require.NoError(t, os.Mkdir(dir, 0o755))
		for name, from := range map[string]string{"ref.fa": "reference.fa", "genes.gff3": "genes.gff3", "truth.vcf": "truth.vcf"} {
			require.NoError(t, copyFile(filepath.Join(dir, name), lambda(from)))
		}
		// The panel is that which the page of panels shows.
		panel := blocksOf(string(readFile(t, root(), "docs", "consume", "watchlists.md")))[0].text
		require.NoError(t, os.WriteFile(filepath.Join(dir, "panel.yaml"), []byte(panel), 0o600))
		writePieces(t, filepath.Join(dir, "reads.pod5"))
		authority, err := streamtest.NewAuthority()
		require.NoError(t, err)
		id, err := authority.Issue("localhost", time.Hour)
		require.NoError(t, err)
		for name, content := range map[string][]byte{"ca.crt": id.CAPEM, "server.pem": id.CertPEM, "server.key": id.KeyPEM} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", baseFiles)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TESTDATA="+filepath.Join(root(), "testdata"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		baseOK = true
	})
	require.True(t, baseOK, "the files of the documents could not be made")
	return dir
}

// writePrograms puts our programs into the folder bin of a world. ingest and processors listen on ports that are free here, where a command
// names none, and processors miss one another as soon as brokers allow.
func writePrograms(t *testing.T, dir, ingest, processor string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	for name, script := range map[string]string{
		"pore": `
if [ "$1" = broker ]; then
	case " $* " in *" --listen "*) ;; *) set -- "$@" --listen 127.0.0.1:0 ;; esac
fi`,
		"ingest": `
case "$1" in
check|token|version|--help) ;;
status) set -- "$@" --address 127.0.0.1:` + ingest + ` ;;
run) ;;
*) case " $* " in *" --listen "*) ;; *) set -- "$@" --listen 127.0.0.1:` + ingest + ` ;; esac ;;
esac`,
		"processor": `
if [ "$1" != version ]; then
	case " $* " in *" --listen "*) ;; *) set -- "$@" --listen 127.0.0.1:` + processor + ` ;; esac
	set -- "$@" --session-timeout 7s --drain-timeout 2s
fi`,
	} {
		text := "#!/bin/sh" + script + "\nexec " + filepath.Join(bin, name) + " \"$@\"\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755))
	}
	if python := os.Getenv("PORESTREAM_PYTHON"); python != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "python3"), []byte("#!/bin/sh\nexec "+python+" \"$@\"\n"), 0o755))
	}
}

// dataBlock is a block of a document that is neither commands nor text.
type dataBlock struct{ language, text string }

// blocksOf are these blocks of a document.
func blocksOf(document string) (list []dataBlock) {
	for _, m := range fence.FindAllStringSubmatch(document, -1) {
		if m[1] != "" && m[1] != "sh" && m[1] != "console" && m[1] != "text" {
			list = append(list, dataBlock{m[1], m[2]})
		}
	}
	return list
}

// pageFiles makes what one page names beside that, in the page's folder. block-1.yaml and so on are the blocks that the page shows, by number.
var pageFiles = map[string]string{
	"docs/attach/adaptive.md": "printf 'J02459.1\\t37000\\t38000\\n' > targets.bed",
	"docs/attach/ingest-sources.md": `
cat > sources.yaml <<-END
	kafka: {brokers: ["kafka:9092"]}
	listen: 127.0.0.1:9101
	sources:
	- {kind: folder, name: nas, folders: [data/run1]}
	- {kind: play, name: control, signal: [run1], follow_clock: true}
END`,
	"docs/attach/models.md": r10Models,
	"docs/attach/push.md":   "cp block-2.yaml devices.yaml",
	"docs/attach/run-models.md": `
mkdir -p dorado-models data/run2
cp -r "$TESTDATA/../models/r9.4-hac" "$TESTDATA/../models/r9.4-fast" dorado-models/
printf 'default: {model: r9.4-fast}\n' > rules.yaml
pore simulate --ref ref.fa --depth 0.05 --seed 2 --out sim
cp sim/reads.pod5 data/run2/`,
	"docs/attach/signal-files.md":        `mkdir fast5_pass && cp "$TESTDATA/../signal/fast5/testdata/multi_vbz.fast5" fast5_pass/`,
	"docs/attach/simulator.md":           "rm -r run1; " + shortReferences,
	"docs/consume/notify.md":             notifyFiles,
	"docs/consume/variants.md":           `cp "$TESTDATA/../docs/consume/consumer.py" .`,
	"docs/consume/watchlists.md":         pageOfPanels,
	"docs/files/annotate.md":             "bcftools view -O b -o calls.bcf calls.vcf",
	"docs/files/bcsq.md":                 "cp calls.vcf phased.vcf",
	"docs/files/carryover.md":            "sed s/FBA12345/FAH90166/ block-1.csv > sheet.csv; rm calls.g.*; " + plate,
	"docs/files/demux.md":                "sed s/FAX001/FAH90166/ block-1.csv > sheet.csv",
	"docs/files/evaluating-basecalls.md": "cp reads.fastq.gz newer.fastq.gz",
	"docs/files/evaluation.md": `
gzip -k truth.vcf
printf 'J02459.1\t37000\t38000\n' > confident.bed`,
	"docs/files/genes.md":          assembly,
	"docs/files/hgvs.md":           sarscov2,
	"docs/files/modified-bases.md": modifiedBases,
	"docs/files/primers.md":        `printf 'J02459.1\t37000\t37020\tlambda_1_LEFT\t1\t+\nJ02459.1\t38000\t38020\tlambda_1_RIGHT\t1\t-\n' > scheme.primer.bed`,
	"docs/files/simulation.md":     "rm -r run1; " + shortReferences,
	"docs/files/sources.md":        sourceFiles,
	"docs/files/variant-calling.md": `
printf 'J02459.1\t37000\t38000\n' > exons.bed
samtools index reads.bam
samtools view -C -T ref.fa -o reads.cram reads.bam`,
	"docs/operate/deployment.md": `printf 'kafka: {brokers: ["kafka:9092"]}\nsources:\n- {kind: folder, name: nas, folders: ['$PWD/data/run1']}\n' > etc/porestream/sources.yaml`,
	"docs/operate/operations.md": "cp ref.fa other.fa; cp genes.gff3 other.gff3; pore simulate --ref ref.fa --depth 0.05 --seed 1 --out sim; cp sim/reads.pod5 recordings/",
}

const (
	r10Models = `
pore simulate --ref ref.fa --chemistry r10.4.1-5khz --depth 0.05 --seed 1 --out r10
cp r10/reads.pod5 reads.pod5
small="$TESTDATA/../basecall/convert/testdata/golden/dna_r10.4.1_small@v5.0.0"
cp -r "$small" dna_r10.4.1_e8.2_400bps_hac@v5.0.0
mkdir dorado-models
cp -r "$small" dorado-models/dna_r10.4.1_e8.2_400bps_hac@v5.0.0
cp -r "$small" dorado-models/dna_r10.4.1_e8.2_400bps_sup@v5.0.0
mkdir -p bonito/bonito/models
cp -r "$TESTDATA/../basecall/convert/testdata/golden/dna_r9.4.1_small@v3.3" bonito/bonito/models/dna_r9.4.1`
	shortReferences = `
head -n 120 ref.fa > lambda.fa
cp lambda.fa NEB.fa
head -n 60 ref.fa | gzip > chr11.fa.gz`
	notifyFiles = `
cat > notify.yaml <<-END
	destinations:
	- name: lims
	  states: [ANY]
	  webhook: {url: "$RECEIVER"}
END`
	pageOfPanels = `
printf 'panel: brain\nversion: 1\nrules:\n- id: MGMT\n  methylation: {region: "J02459.1:37000-38000", is: methylated}\n' > brain.yaml
cp ref.fa h37rv.fa
cp genes.gff3 h37rv.gff3
printf 'J02459.1\t37588\t37589\tlineage1\tT\n' > barcode.bed`
	plate = `
samtools view -h reads.bam | awk -v OFS='\t' '
	/^@RG/ {next}
	/^@SQ/ {print; next}
	/^@/ {print; next}
	!begun {begun = 1; for (s in names) print "@RG", "ID:" names[s], "SM:" names[s]}
	{sub(/\tRG:Z:[^\t]*/, ""); print $0, "RG:Z:" names[NR % 3]}
	BEGIN {names[0] = "patient1"; names[1] = "wildtype"; names[2] = "water"}' | samtools view -b -o plate.bam`
	assembly = `
{ sed 's/^>.*/>chromosome/' ref.fa; gzip -dc "$TESTDATA/sarscov2/reference.fa.gz" | sed 's/^>.*/>plasmid1/'; } > assembly.fa
sed -i 's/J02459.1/chromosome/' calls.vcf
cat > related.gbff <<-END
	LOCUS       AB000001   30 bp    DNA     circular BCT 01-JAN-2020
	DEFINITION  Something.
	VERSION     AB000001.2
	FEATURES             Location/Qualifiers
	     CDS             1..30
	                     /gene="abcD"
	                     /product="something"
	                     /protein_id="AB0001.1"
	                     /translation="MSTKKKPLTQEQLEDARRLKAIYEKKKNELGLSQESVADKMGMGQSGVGAL"
	ORIGIN
	        1 atgatgatga tgatgatgat gatgatgtaa
	//
END
gzip related.gbff`
	sarscov2 = `
gzip -dc "$TESTDATA/sarscov2/reference.fa.gz" > NC_045512.2.fa
cp "$TESTDATA/sarscov2/genes.gff3" .`
	modifiedBases = `
printf 'J02459.1\t37000\t38000\tx\tmethylated\n' > rules.tsv
printf 'J02459.1\t37589\t37590\tprobe1\n' > probes.bed
cp ref.fa ecoli.fa
cp reads.sorted.bam ecoli.sorted.bam`
	sourceFiles = `
cp ref.fa GRCh38.fa
printf '##fileformat=VCFv4.2\n##INFO=<ID=CLNSIG,Number=.,Type=String,Description="s">\n##INFO=<ID=CLNREVSTAT,Number=.,Type=String,Description="s">\n##INFO=<ID=CLNDN,Number=.,Type=String,Description="s">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nJ02459.1\t37589\t1\tC\tT\t.\t.\tCLNSIG=Benign;CLNREVSTAT=x;CLNDN=y\n' | gzip > clinvar.vcf.gz
printf 'J02459.1\t37000\t38000\tx\n' > panel.bed
pore sources build --ref GRCh38.fa --name gnomad --version 4 panel.bed -o gnomad.pss
printf '#CHROM\tPOS\tREF\tALT\tam_pathogenicity\tam_class\nJ02459.1\t37589\tC\tT\t0.9\tlikely\n' | gzip > AlphaMissense_hg38.tsv.gz
printf '!gaf-version: 2.2\nUniProtKB\tP03034\tcI\tinvolved_in\tGO:0003677\tPMID:1\tIEA\t\tF\trepressor\t\tprotein\ttaxon:10710\t20200101\tUniProt\t\t\n' | gzip > goa_human.gaf.gz
printf 'format-version: 1.2\n\n[Term]\nid: GO:0003677\nname: DNA binding\nnamespace: molecular_function\n' > go-basic.obo
printf 'protein\tstart\tend\tdatabase\taccession\tdescription\nlambdap88\t1\t92\tPfam\tPF01381\thelix-turn-helix\n' > domains.tsv`
)
