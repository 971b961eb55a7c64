package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// attaches runs an ingest of called reads that polls often and is not to end.
func (f *fault) attaches(dir string, args ...string) {
	f.Helper()
	f.runs(append([]string{"reads", "--journal", f.TempDir(), "--poll", "50ms", dir}, args...)...)
}

// attachesUnprivileged runs it as a user to whom permissions apply.
func (f *fault) attachesUnprivileged(dir string) {
	f.Helper()
	f.page = freeAddress(f)
	cmd := f.unprivileged(f.command([]string{"reads", "--journal", f.TempDir(), "--listen", f.page, "--poll", "50ms", dir}))
	cmd.Stdout, cmd.Stderr = &f.said, &f.said
	require.NoError(f, cmd.Start())
	f.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// calledFile is a file of called reads in a folder of its own.
func (f *fault) calledFile(name string, content []byte) (dir string) {
	f.Helper()
	dir = f.TempDir()
	require.NoError(f, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	return dir
}

// calledBAM is what Dorado makes of 40 reads.
func (f *fault) calledBAM() []byte {
	return readFile(f, root(), "basecall", "input", "testdata", "dorado.bam")
}

// calledCRAM is a CRAM file of reads that are aligned to a contig c2 of 1,000 bases.
func calledCRAM(f *fault) []byte {
	return readFile(f, root(), "align", "hts", "cram", "testdata", "3.0.cram")
}

var readsFaults = map[string]func(*fault){
	"a BAM file never gets its end": func(f *fault) {
		b := f.calledBAM()
		f.attaches(f.calledFile("x.bam", b[:len(b)-28]), "--idle-end", "500ms")
	},
	"a BAM file is damaged": func(f *fault) { f.attaches(f.calledFile("x.bam", damaged(f.calledBAM()))) },
	"a file of called reads is CRAM, and its reference isn't given": func(f *fault) {
		f.attaches(f.calledFile("x.cram", calledCRAM(f)))
	},
	"a file of called reads is CRAM of another reference": func(f *fault) {
		f.attaches(f.calledFile("x.cram", calledCRAM(f)), "--ref", f.write("ref.fa", []byte(">c2\n"+strings.Repeat("ACGTTGCACT", 100)+"\n")))
	},
	"a file of called reads is removed too early": func(f *fault) {
		dir := f.calledFile("x.fastq", []byte("@whole runid=r\nACGT\n+\n!!!!\n@half runid=r\nAC"))
		f.attaches(dir)
		f.eventually("reads", func() bool { return f.counter("reads_total") > 0 })
		require.NoError(f, os.Remove(filepath.Join(dir, "x.fastq")))
	},
	"a folder of called reads may not be listed": func(f *fault) {
		dir := f.TempDir()
		below := filepath.Join(dir, "below")
		require.NoError(f, os.Mkdir(below, 0))
		f.Cleanup(func() { os.Chmod(below, 0o700) })
		f.attachesUnprivileged(dir)
	},
	"a file of called reads may not be read": func(f *fault) {
		dir := f.calledFile("x.fastq", []byte("@one runid=r\nACGT\n+\n!!!!\n"))
		require.NoError(f, os.Chmod(filepath.Join(dir, "x.fastq"), 0))
		f.attachesUnprivileged(dir)
	},
	"a called read has qualities of another length": func(f *fault) {
		f.attaches(f.calledFile("x.fastq", []byte("@bad runid=r\nACGT\n+\n!!\n@good runid=r\nACGT\n+\n!!!!\n")))
	},
	"a called read comes with other bases": func(f *fault) {
		f.attaches(f.calledFile("x.fastq", []byte("@twice runid=r\nACGT\n+\n!!!!\n@twice runid=r\nACGA\n+\n!!!!\n")))
	},
	"called reads name no run": func(f *fault) { f.attaches(f.calledFile("x.fastq", []byte("@bare\nACGT\n+\n!!!!\n"))) },
	"a called read has a barcode that nobody knows": func(f *fault) {
		f.attaches(f.calledFile("x.fastq", []byte("@one runid=r barcode=barcode01\nACGT\n+\n!!!!\n@two runid=r barcode=plate7\nACGT\n+\n!!!!\n")))
	},
	"called reads come with the sheet of another flow cell": func(f *fault) {
		f.attaches(f.calledFile("x.sam", []byte("@RG\tID:g\tDS:runid=r\tPU:FAX00001\tSM:s\none\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tRG:Z:g\tBC:Z:barcode01\n")),
			"--sample-sheet", f.write("sheet.csv", []byte("kit,experiment_id,flow_cell_id,barcode,alias\nSQK-NBD114-24,e,FAX99999,barcode01,patient-1\nSQK-NBD114-24,e,FAX99998,barcode02,patient-2\n")))
	},
	"barcodes come after reads without": func(f *fault) {
		f.attaches(f.calledFile("x.fastq", []byte("@one runid=r\nACGT\n+\n!!!!\n@two runid=r barcode=barcode01\nACGT\n+\n!!!!\n")))
	},
	"a run is attached both ways": func(f *fault) {
		f.works("--sample", "s", f.write("x.blow5", f.recordedBLOW5()))
		f.fails("reads", "--journal", f.TempDir(), "--sample", "s", f.write("x.fastq", []byte("@a runid="+runOfThree+"\nACGT\n+\n!!!!\n")))
	},
	"a pipe of called reads breaks off": func(f *fault) {
		cmd := f.command([]string{"reads", "--journal", f.TempDir(), "-"})
		cmd.Stdin = bytes.NewReader([]byte("@a runid=r\nACGT\n+\n!!!!\n@b runid=r\nAC"))
		f.await(cmd)
	},
}

// runOfThree is a run of the recorded BLOW5 file.
const runOfThree = "f7c95112c35c42bc2983752717adc93133266cdf"
