package main

import (
	"os"
	"testing"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_PORE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(runProgram) != "" {
		os.Exit(cli.Main(program()))
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) { clitest.Program(t, "../..", program) }

// TestMistakes makes the mistakes that people make with each command.
func TestMistakes(t *testing.T) {
	clitest.Refuses(t, runProgram, []clitest.Mistake{
		{``, 2, `pore: name a command; see pore --help`},
		{`rnu`, 2, `did you mean run?`},
		{`frobnicate`, 2, `unknown command "frobnicate" for "pore"; see pore --help`},
		{`run`, 2, `usage: pore run --ref FASTA`},
		{`run --oot x ../../testdata/lambda/reads.pod5`, 2, `did you mean --out?`},
		{`run --ref nope.fa --out {tmp} ../../testdata/lambda/reads.pod5`, 1, `nope.fa: no such file`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} nope.pod5`, 1, `nope.pod5: no such file or directory`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} main.go`, 1, `main.go: byte 0: not POD5, BLOW5 or FAST5`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} --ploidy 3 ../../testdata/lambda/reads.pod5`, 2, `--ploidy: ploidy "3": want 1, 2 or mixture`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} --pace fast ../../testdata/lambda/reads.pod5`, 2, `--pace: "fast" is neither a positive number nor max`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} --max-buffered lots ../../testdata/lambda/reads.pod5`, 2, `"lots" is no size`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} --model nope ../../testdata/lambda/reads.pod5`, 1, `neither a folder nor one of the shipped models (r9.4-fast`},
		{`run --ref ../../testdata/lambda/reference.fa --out {tmp} --brokers 127.0.0.1:1 ../../testdata/lambda/reads.pod5`, 1, `nobody listens there`},
		{`basecall`, 2, `requires at least 1 arg(s)`},
		{`basecall nope.pod5`, 1, `nope.pod5: no such file or directory`},
		{`basecall --format cram ../../testdata/lambda/reads.pod5`, 2, `"cram" is none of fastq, sam, bam`},
		{`basecall --kit-name SQK-NOPE ../../testdata/lambda/reads.pod5`, 2, `kit "SQK-NOPE" is none of`},
		{`call`, 2, `accepts 1 arg(s), received 0; usage: pore call`},
		{`call x.bam`, 2, `--ref is required`},
		{`call --ref ../../testdata/lambda/reference.fa nope.bam`, 1, `nope.bam: no such file or directory`},
		{`call --ref ../../testdata/lambda/reference.fa main.go`, 1, `main.go: reading alignments: neither BAM nor SAM`},
		{`call --ref ../../testdata/lambda/reference.fa --region chrX:1 main.go`, 2, `there is no contig "chrX" in the reference`},
		{`align nope.fq`, 2, `--ref is required`},
		{`align --ref ../../testdata/lambda/reference.fa nope.fq`, 1, `nope.fq: no such file or directory`},
		{`annotate x.vcf`, 2, `--ref and --gff are required`},
		{`annotate --ref ../../testdata/lambda/reference.fa --gff ../../testdata/lambda/genes.gff3 main.go`, 1, `want ##fileformat=VCFv4.x`},
		{`annotate --ref ../../testdata/lambda/reference.fa --gff ../../testdata/lambda/genes.gff3 --fields xyz main.go`, 2, `want csq, ann or bcsq`},
		{`hgvs`, 2, `usage: pore hgvs`},
		{`consume`, 2, `--brokers is required`},
		{`consume --brokers nowhere`, 2, `broker address "nowhere": want host:port`},
		{`consume --brokers 127.0.0.1:1 --format xml`, 2, `want text, json or vcf`},
		{`consume --brokers 127.0.0.1:1 --filter (((`, 2, `--filter: unexpected token EOF`},
		{`consume --brokers 127.0.0.1:1`, 1, `nobody listens there`},
		{`demo --data nope`, 1, `nope/truth.vcf: no such file`},
		{`demo --pace -1`, 2, `"-1" is neither a positive number nor max`},
		{`demux reads.bam`, 2, `--out is required`},
		{`summary nope.bam`, 1, `nope.bam: no such file or directory`},
		{`eval variants --ref ../../testdata/lambda/reference.fa calls.vcf`, 2, `--ref and --truth are required`},
		{`eval variants --ref ../../testdata/lambda/reference.fa --truth nope.vcf calls.vcf`, 1, `nope.vcf: no such file or directory`},
		{`model check nope`, 1, `neither a folder nor one of the shipped models`},
		{`model convert nope`, 2, `name the folder to write with --out`},
		{`sources build --ref ../../testdata/lambda/reference.fa --name x --version 1 nope.vcf`, 2, `-o is required`},
		{`sources build --ref ../../testdata/lambda/reference.fa --name x --version 1 --memory 256 nope.vcf -o /dev/null/x`, 2, `--memory 256 is less than 1MiB`},
		{`sources info main.go`, 1, `not a compiled source: make one with pore sources build`},
		{`sources lookup a:b`, 2, `--ref and --source are required`},
		{`signal info nope`, 1, `nope: no such file or directory`},
		{`signal convert ../../testdata/lambda/reads.pod5`, 2, `-o is required`},
		{`simulate reads --ref ../../testdata/lambda/reference.fa --profile nope`, 1, `neither a file nor one of the shipped profiles`},
		{`simulate reads --ref ../../testdata/lambda/reference.fa --profile r9.4-porestream --depth -1`, 2, `a depth of -1: want more than 0`},
		{`simulate derive nope`, 2, `--name is required`},
		{`state ls`, 2, `--brokers is required`},
		{`reset --brokers 127.0.0.1:1 --stage nope`, 2, `want one of annotate, basecall, variant, watch`},
		{`replay --brokers 127.0.0.1:1 --stage variant --from yesterday`, 2, `want start, an offset or a time such as`},
		{`topics check`, 2, `--brokers is required`},
		{`dlq`, 2, `name a command; see pore dlq --help`},
		{`dlq show --brokers 127.0.0.1:1 x`, 2, `want PARTITION/OFFSET`},
		{`acls --role king --principal User:x`, 2, `unknown role "king"`},
		{`bench basecall`, 2, `requires at least 1 arg(s)`},
		{`bench judge --rounds 0`, 2, `must be at least 1`},
		{`version now`, 2, `usage: pore version`},
	})
}
