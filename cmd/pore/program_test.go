package main

import (
	"testing"

	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_PORE_TEST"

func TestMain(m *testing.M) { clitest.Main(m, runProgram, program) }

func TestProgram(t *testing.T) { clitest.Program(t, "../..", program) }

// TestMistakes makes the mistakes that people make with each command.
func TestMistakes(t *testing.T) {
	clitest.Refuses(t, runProgram, []clitest.Mistake{
		{Args: ``, Code: 2, Want: `pore: name a command; see pore --help`},
		{Args: `rnu`, Code: 2, Want: `did you mean run?`},
		{Args: `frobnicate`, Code: 2, Want: `unknown command "frobnicate" for "pore"; see pore --help`},
		{Args: `run`, Code: 2, Want: `usage: pore run --ref FASTA`},
		{Args: `run --oot x ../../testdata/lambda/reads.pod5`, Code: 2, Want: `did you mean --out?`},
		{Args: `run --ref nope.fa --out {tmp} ../../testdata/lambda/reads.pod5`, Code: 1, Want: `nope.fa: no such file`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} nope.pod5`, Code: 1, Want: `nope.pod5: no such file or directory`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} main.go`, Code: 1, Want: `main.go: byte 0: not POD5, BLOW5 or FAST5`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --ploidy 3 ../../testdata/lambda/reads.pod5`, Code: 2, Want: `--ploidy: ploidy "3": want 1, 2 or mixture`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --pace fast ../../testdata/lambda/reads.pod5`, Code: 2, Want: `--pace: "fast" is neither a positive number nor max`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --max-buffered lots ../../testdata/lambda/reads.pod5`, Code: 2, Want: `"lots" is no size`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --model nope ../../testdata/lambda/reads.pod5`, Code: 1, Want: `neither a folder nor one of the shipped models (r9.4-fast`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --brokers 127.0.0.1:1 ../../testdata/lambda/reads.pod5`, Code: 1, Want: `nobody listens there`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --follow ../../testdata/lambda`, Code: 2, Want: `ingest folder --brokers 127.0.0.1:9092 DIR`},
		{Args: `run --ref ../../testdata/lambda/reference.fa --out {tmp} --brokers-listen 0.0.0.0:9092 ../../testdata/lambda/reads.pod5`, Code: 1, Want: `not a loopback address`},
		{Args: `broker --listen :9092 --data {tmp}`, Code: 1, Want: `not a loopback address`},
		{Args: `basecall`, Code: 2, Want: `requires at least 1 arg(s)`},
		{Args: `basecall nope.pod5`, Code: 1, Want: `nope.pod5: no such file or directory`},
		{Args: `basecall --format cram ../../testdata/lambda/reads.pod5`, Code: 2, Want: `"cram" is none of fastq, sam, bam`},
		{Args: `basecall --kit-name SQK-NOPE ../../testdata/lambda/reads.pod5`, Code: 2, Want: `kit "SQK-NOPE" is none of`},
		{Args: `call`, Code: 2, Want: `accepts 1 arg(s), received 0; usage: pore call`},
		{Args: `call x.bam`, Code: 2, Want: `--ref is required`},
		{Args: `call --ref ../../testdata/lambda/reference.fa nope.bam`, Code: 1, Want: `nope.bam: no such file or directory`},
		{Args: `call --ref ../../testdata/lambda/reference.fa main.go`, Code: 1, Want: `main.go: reading alignments: neither BAM, CRAM nor SAM`},
		{Args: `call --ref ../../testdata/lambda/reference.fa --region chrX:1 main.go`, Code: 2, Want: `there is no contig "chrX" in the reference`},
		{Args: `align nope.fq`, Code: 2, Want: `--ref is required`},
		{Args: `align --ref ../../testdata/lambda/reference.fa nope.fq`, Code: 1, Want: `nope.fq: no such file or directory`},
		{Args: `eval basecall`, Code: 2, Want: `requires at least 1 arg(s)`},
		{Args: `eval basecall nope.fq`, Code: 2, Want: `--ref is required`},
		{Args: `eval basecall --ref ../../testdata/lambda/reference.fa main.go`, Code: 1, Want: `main.go: neither FASTQ, SAM (with a header) nor BAM`},
		{Args: `annotate x.vcf`, Code: 2, Want: `--ref and --gff are required`},
		{Args: `annotate --ref ../../testdata/lambda/reference.fa --gff ../../testdata/lambda/genes.gff3 main.go`, Code: 1, Want: `want ##fileformat=VCFv4.x`},
		{Args: `annotate --ref ../../testdata/lambda/reference.fa --gff ../../testdata/lambda/genes.gff3 --fields xyz main.go`, Code: 2, Want: `want csq, ann or bcsq`},
		{Args: `hgvs`, Code: 2, Want: `usage: pore hgvs`},
		{Args: `consume`, Code: 2, Want: `--brokers is required`},
		{Args: `consume --brokers nowhere`, Code: 2, Want: `broker address "nowhere": want host:port`},
		{Args: `consume --brokers 127.0.0.1:1 --format xml`, Code: 2, Want: `want text, json, vcf`},
		{Args: `consume --brokers 127.0.0.1:1 --filter (((`, Code: 2, Want: `--filter: unexpected token EOF`},
		{Args: `consume --brokers 127.0.0.1:1`, Code: 1, Want: `nobody listens there`},
		{Args: `demo --data nope`, Code: 1, Want: `nope/truth.vcf: no such file`},
		{Args: `demo --pace -1`, Code: 2, Want: `"-1" is neither a positive number nor max`},
		{Args: `demux reads.bam`, Code: 2, Want: `--out is required`},
		{Args: `summary nope.bam`, Code: 1, Want: `nope.bam: no such file or directory`},
		{Args: `eval variants --ref ../../testdata/lambda/reference.fa calls.vcf`, Code: 2, Want: `--ref and --truth are required`},
		{Args: `eval variants --ref ../../testdata/lambda/reference.fa --truth nope.vcf calls.vcf`, Code: 1, Want: `nope.vcf: no such file or directory`},
		{Args: `model check nope`, Code: 1, Want: `neither a folder nor one of the shipped models`},
		{Args: `model convert nope`, Code: 2, Want: `name the folder to write with --out`},
		{Args: `sources build --ref ../../testdata/lambda/reference.fa --name x --version 1 nope.vcf`, Code: 2, Want: `-o is required`},
		{Args: `sources build --ref ../../testdata/lambda/reference.fa --name x --version 1 --memory 256 nope.vcf -o /dev/null/x`, Code: 2, Want: `--memory 256 is less than 1MiB`},
		{Args: `sources info main.go`, Code: 1, Want: `not a compiled source: make one with pore sources build`},
		{Args: `sources lookup a:b`, Code: 2, Want: `--ref and --source are required`},
		{Args: `signal info nope`, Code: 1, Want: `nope: no such file or directory`},
		{Args: `signal convert ../../testdata/lambda/reads.pod5`, Code: 2, Want: `-o is required`},
		{Args: `simulate reads --ref ../../testdata/lambda/reference.fa --profile nope`, Code: 1, Want: `neither a file nor one of the shipped profiles`},
		{Args: `simulate reads --ref ../../testdata/lambda/reference.fa --profile r9.4-porestream --depth -1`, Code: 2, Want: `a depth of -1: want more than 0`},
		{Args: `simulate derive nope`, Code: 2, Want: `--name is required`},
		{Args: `state ls`, Code: 2, Want: `--brokers is required`},
		{Args: `reset --brokers 127.0.0.1:1 --stage nope`, Code: 2, Want: `want one of align, annotate, basecall, methylate, variant, watch`},
		{Args: `replay --brokers 127.0.0.1:1 --stage variant --from yesterday`, Code: 2, Want: `want start, an offset or a time such as`},
		{Args: `topics check`, Code: 2, Want: `--brokers is required`},
		{Args: `dlq`, Code: 2, Want: `name a command; see pore dlq --help`},
		{Args: `dlq show --brokers 127.0.0.1:1 x`, Code: 2, Want: `want PARTITION/OFFSET`},
		{Args: `acls --role king --principal User:x`, Code: 2, Want: `unknown role "king"`},
		{Args: `bench basecall`, Code: 2, Want: `requires at least 1 arg(s)`},
		{Args: `bench basecall --rounds 0 ../../testdata/lambda/reads.pod5`, Code: 2, Want: `--rounds is to be at least 1`},
		{Args: `bench basecall --sweep-batches 4,2 ../../testdata/lambda/reads.pod5`, Code: 2, Want: `--sweep-batches [4 2]: want sizes`},
		{Args: `bench agreement --least-identity 2 ../../testdata/lambda/reads.pod5`, Code: 2, Want: `--least-identity 2 is not from 0 to 1`},
		{Args: `basecall --precision bf16 ../../testdata/lambda/reads.pod5`, Code: 2, Want: `"bf16" is none of auto, fp32, fp16, int8`},
		{Args: `bench judge --rounds 0`, Code: 2, Want: `must be at least 1`},
		{Args: `version now`, Code: 2, Want: `usage: pore version`},
	})
}
