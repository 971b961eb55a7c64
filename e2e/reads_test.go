package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/bgzf"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// calledWay is a way for called reads to get to Kafka.
type calledWay struct {
	wayIn
	processor *service
	flags     []string // of the processor
	bam       []byte   // the recording as pore basecall calls it
	sam       []byte   // likewise, as text
}

// awaitCalled waits until there are so many records of called reads.
func (w *calledWay) awaitCalled(n int64) {
	w.t.Helper()
	streamtest.Eventually(w.ctx, w.t, fmt.Sprintf("%d called reads", n), func() bool {
		var sum int64
		offsets, err := w.client.Offsets(w.ctx, w.topics().Called)
		require.NoError(w.t, err)
		for _, o := range offsets {
			sum += o.Stable
		}
		return sum >= n
	})
}

func (w *calledWay) startProcessor() {
	w.processor = start(w.t, w.cancel, "processor", w.flags...)
}

// killProcessor kills the processor, and starts another.
func (w *calledWay) killProcessor() {
	kill(w.t, w.processor)
	w.startProcessor()
}

// toCRAM writes alignments, or reads that aren't aligned, as CRAM.
func toCRAM(t *testing.T, path string, bam []byte, reference string) {
	t.Helper()
	needs(t, "samtools")
	own := filepath.Join(t.TempDir(), "ref.fa") // beside which samtools puts its index
	require.NoError(t, os.WriteFile(own, readFile(t, reference), 0o600))
	cmd := exec.CommandContext(t.Context(), "samtools", "view", "-O", "cram,version=3.1,small", "-T", own, "-o", path, "-")
	cmd.Stdin = bytes.NewReader(bam)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// file attaches a file, which is CRAM.
func (w *calledWay) file() {
	path := filepath.Join(w.t.TempDir(), "calls.cram")
	toCRAM(w.t, path, w.bam, w.rec.ref)
	w.ingest("reads", "--journal", w.t.TempDir(), "--poll", "100ms", path).ended(w.t)
}

// pipe attaches what a basecaller writes. It is killed, and begins anew.
func (w *calledWay) pipe() {
	journal := w.t.TempDir()
	piped := func(input []byte, until int, wait bool) {
		args := []string{"reads", "--journal", journal, "--brokers", w.addr, "--topic-prefix", w.prefix, "--partitions", "3", "--listen", "127.0.0.1:0", "-"}
		cmd := exec.Command(filepath.Join(bin, "ingest"), args...)
		said := new(testenv.Log)
		cmd.Stderr = said
		in, err := cmd.StdinPipe()
		require.NoError(w.t, err)
		require.NoError(w.t, cmd.Start())
		_, err = in.Write(input[:until])
		require.NoError(w.t, err)
		if !wait {
			w.awaitCalled(int64(len(w.rec.lengths) / 4))
			require.NoError(w.t, cmd.Process.Kill())
			require.Error(w.t, cmd.Wait())
			return
		}
		require.NoError(w.t, in.Close())
		require.NoError(w.t, cmd.Wait(), said)
	}
	piped(w.sam, len(w.sam)/2, false)
	piped(w.bam, len(w.bam), true)
}

// folder attaches a folder as MinKNOW lays it out, in which a BAM file grows, block by block,
// and whose reads are in others, too. Ingest and processor are killed.
func (w *calledWay) folder() {
	dir, journal := w.t.TempDir(), w.t.TempDir()
	watch := func(flags ...string) *service {
		return w.ingest(append([]string{"reads", "--journal", journal, "--poll", "100ms", dir}, flags...)...)
	}
	pass, fail := filepath.Join(dir, "bam_pass"), filepath.Join(dir, "bam_fail")
	require.NoError(w.t, os.MkdirAll(pass, 0o755))
	require.NoError(w.t, os.MkdirAll(fail, 0o755))
	// What failed is left out, whatever it is.
	require.NoError(w.t, os.WriteFile(filepath.Join(fail, "x.bam"), []byte("no BAM"), 0o600))
	path := filepath.Join(pass, "calls_0.bam")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer f.Close()
	whole, written := smallBlocks(w.t, w.bam), 0
	writeUpTo := func(n int) {
		for written < n {
			until := min(n, written+20_000)
			_, err := f.Write(whole[written:until])
			require.NoError(w.t, err)
			written = until
		}
	}
	reads := int64(len(w.rec.lengths))
	ingest := watch()
	writeUpTo(len(whole) / 3)
	w.awaitCalled(reads / 6)
	kill(w.t, ingest)
	writeUpTo(len(whole) / 2)
	w.killProcessor()
	ingest = watch()
	w.awaitCalled(reads / 3)
	// The same reads in another file and another format.
	var gzipped bytes.Buffer
	z := gzip.NewWriter(&gzipped)
	_, err = z.Write(w.sam)
	require.NoError(w.t, err)
	require.NoError(w.t, z.Close())
	require.NoError(w.t, os.WriteFile(filepath.Join(pass, "again.sam.gz"), gzipped.Bytes(), 0o600))
	w.awaitCalled(reads * 2 / 3)
	kill(w.t, ingest)
	writeUpTo(len(whole))
	ingest = watch()
	w.killProcessor()
	w.endRun(dir)
	w.untilEnded()
	kill(w.t, ingest)
	watch("--once").ended(w.t)
}

// smallBlocks is a BAM file in blocks of a few reads.
func smallBlocks(t *testing.T, file []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	in, err := bgzf.NewReader(bytes.NewReader(file), 1)
	require.NoError(t, err)
	w := bgzf.NewWriter(&out, 1)
	b := make([]byte, 9000)
	for {
		n, err := in.Read(b)
		if n > 0 {
			_, err := w.Write(b[:n])
			require.NoError(t, err)
			require.NoError(t, w.Flush())
		}
		if err != nil {
			break
		}
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TestCalledReadsGiveTheSameBytes: the recording as pore basecall calls it, attached as
// reads, has the alignments and the variants that its signal has, to the byte, though no
// processor has a basecalling model, and whatever is killed.
func TestCalledReadsGiveTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Parallel()
	rec := newRecorded(t)
	called := func(format string) []byte {
		res := pore(t, "basecall", "--device", rec.device, "--format", format, rec.reads)
		require.Zero(t, res.code, res.stderr)
		return []byte(res.stdout)
	}
	formats := map[string][]byte{"fastq": called("fastq"), "sam": called("sam"), "bam": called("bam")}
	bam, sam, unaligned := formats["bam"], formats["sam"], formats["fastq"]
	t.Run("pore run", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "calls.bam")
		require.NoError(t, os.WriteFile(path, bam, 0o600))
		require.Equal(t, rec.vcf, string(readFile(t, run(t, rec.ref, lambda("genes.gff3"), path), "variants.vcf")))
		// As aligned reads in CRAM, which doesn't hold the reference's bases.
		t.Run("aligned, in CRAM", func(t *testing.T) {
			needs(t, "samtools")
			dir := t.TempDir()
			reads, cram := filepath.Join(dir, "reads.fastq"), filepath.Join(dir, "calls.cram")
			cmd := exec.CommandContext(t.Context(), "samtools", "fastq", "-T", "*", path)
			fastq, err := cmd.Output()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(reads, fastq, 0o600))
			aligned := pore(t, "align", "--ref", rec.ref, reads)
			require.Zero(t, aligned.code, aligned.stderr)
			_, group, _ := strings.Cut(string(sam), "\n@RG\t")
			group, _, _ = strings.Cut(group, "\n")
			cmd = exec.CommandContext(t.Context(), "samtools", "addreplacerg", "-m", "overwrite_all", "-r", "@RG\t"+group, "-O", "bam", "-")
			cmd.Stdin = strings.NewReader(aligned.stdout)
			named, err := cmd.Output()
			require.NoError(t, err)
			toCRAM(t, cram, named, rec.ref)
			require.Equal(t, rec.vcf, string(readFile(t, run(t, rec.ref, lambda("genes.gff3"), cram), "variants.vcf")))
		})
	})
	t.Run("of another basecalling model", func(t *testing.T) {
		const strange = "dna_r10.4.1_e8.2_400bps_fast@v5.0.0"
		require.Contains(t, string(sam), "basecall_model=r9.4-fast")
		path, out := filepath.Join(t.TempDir(), "calls.sam"), t.TempDir()
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(sam, []byte("basecall_model=r9.4-fast"), []byte("basecall_model="+strange)), 0o600))
		args := []string{"run", "--ref", rec.ref, "--gff", lambda("genes.gff3"), "--processors", "2", "--out", out}
		res := pore(t, append(args, path)...)
		require.Zero(t, res.code, res.stderr)
		vcf := string(readFile(t, out, "variants.vcf"))
		mismatch := ";ModelMismatch=" + strange
		require.Equal(t, rec.vcf, strings.ReplaceAll(vcf, mismatch, ""), "the same calls but for what they say")
		records := strings.Count("\n"+strings.TrimSpace(rec.vcf), "\n") - strings.Count("\n"+rec.vcf, "\n#")
		require.Positive(t, records)
		require.Equal(t, records, strings.Count(vcf, mismatch))
		require.Equal(t, records, strings.Count(string(readFile(t, out, "variants.jsonl")), `"model_mismatch":["`+strange+`"]`))
		line := "variant model r9-r10-pileup was not made for reads of " + strange + " (100.0 %)"
		require.Contains(t, res.stderr, line)
		require.Contains(t, string(readFile(t, out, "summary.json")), `"name": "`+strange+`"`)
		// pore call says the same of the same reads, and both refuse if asked to.
		res = pore(t, "call", "--ref", rec.ref, path)
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stdout, mismatch)
		require.Contains(t, res.stderr, line)
		for _, args := range [][]string{append(args, "--strict-models"), {"call", "--ref", rec.ref, "--strict-models"}} {
			res = pore(t, append(args, path)...)
			require.Equal(t, 1, res.code, res.stderr)
			require.Contains(t, res.stderr, "the variant model was not made for these reads: "+strange+" has called them, and r9-r10-pileup is for those of r9.4-fast, r9.4-hac, ")
			require.Contains(t, res.stderr, "go on without --strict-models")
			require.NotContains(t, res.stderr, "generation failed", "it is said once, and not tried again")
		}
	})
	t.Run("pore call", func(t *testing.T) {
		dir := t.TempDir()
		reads, alignments := filepath.Join(dir, "reads.fastq"), filepath.Join(dir, "reads.bam")
		require.NoError(t, os.WriteFile(reads, unaligned, 0o600))
		require.Zero(t, pore(t, "align", "--ref", rec.ref, "-o", alignments, reads).code)
		want := pore(t, "call", "--ref", rec.ref, "--sample", "phage", alignments)
		require.Zero(t, want.code, want.stderr)
		t.Run("aligned, in CRAM", func(t *testing.T) {
			cram := filepath.Join(dir, "reads.cram")
			toCRAM(t, cram, readFile(t, alignments), rec.ref)
			got := pore(t, "call", "--ref", rec.ref, "--sample", "phage", cram)
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, want.stdout, got.stdout)
		})
		for format, file := range formats {
			require.NoError(t, os.WriteFile(reads, file, 0o600))
			got := pore(t, "call", "--ref", rec.ref, "--sample", "phage", reads)
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, want.stdout, got.stdout, format)
		}
		// A read that can't be used is reported, and variants are called from the others.
		require.NoError(t, os.WriteFile(reads, append([]byte("@bad\nACGT\n+\n!!\n"), unaligned...), 0o600))
		got := pore(t, "call", "--ref", rec.ref, "--sample", "phage", reads)
		require.Equal(t, 1, got.code)
		require.Contains(t, got.stderr, "record at byte 0: read bad: 2 qualities for 4 bases")
		require.Contains(t, got.stderr, "1 reads can't be used")
		require.Equal(t, want.stdout, got.stdout)
	})
	onBroker(t, func(t *testing.T, addr string) {
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		through := func(t *testing.T, name string, stages []string, feed func(*calledWay)) []string {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w := &calledWay{wayIn: wayIn{t: t, rec: rec, client: client, addr: addr, prefix: name + "-", ctx: ctx, cancel: cancel}, bam: bam, sam: sam}
			w.flags = append([]string{
				"--brokers", addr, "--topic-prefix", w.prefix, "--ref", rec.ref, "--gff", lambda("genes.gff3"), "--listen", "127.0.0.1:0",
				"--memberships", filepath.Join(t.TempDir(), "memberships"),
			}, stages...)
			require.NoError(t, client.EnsureTopics(ctx, w.topics().Settings(3), 1))
			w.startProcessor()
			feed(w)
			followRun(ctx, t, client, w.topics(), rec.run, nil)
			w.processor.stop(t)
			res := pore(t, "consume", "--brokers", addr, "--topic-prefix", w.prefix, "--format", "vcf", "--ref", rec.ref)
			require.Zero(t, res.code, res.stderr)
			require.Equal(t, rec.vcf, res.stdout)
			return w.segments()
		}
		want := through(t, "signal", []string{"--device", rec.device}, func(w *calledWay) { w.play() })
		// A model that isn't there would end a processor that loads one.
		calledOnly := []string{"--stages", "align,variant,annotate", "--model", "none-such", "--snapshot-interval", "1s"}
		for name, feed := range map[string]func(*calledWay){"file": (*calledWay).file, "pipe": (*calledWay).pipe, "folder": (*calledWay).folder} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got := through(t, "called-"+name, calledOnly, feed)
				require.True(t, slices.Equal(want, got), "other alignments than of the signal")
				reads := make(map[string]bool)
				err := client.Consume(t.Context(), stream.NewTopics("called-"+name+"-").Called, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(r stream.Record) error {
					m, err := stream.DecodeCalled(r.Value)
					if err != nil || m.GetRead() == nil {
						return err
					}
					require.False(t, reads[m.GetRead().GetReadId()], "read %s is there twice", m.GetRead().GetReadId())
					reads[m.GetRead().GetReadId()] = true
					return nil
				})
				require.NoError(t, err)
				require.Len(t, reads, len(rec.lengths))
			})
		}
	})
}
