package folder

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// attaching is a watch of a folder with files of called reads.
func attaching(t *testing.T, files map[string]string) (*world, *bytes.Buffer) {
	t.Helper()
	v := &world{t: t, dir: t.TempDir(), journal: t.TempDir(), k: &kafka{runs: make(map[string]*sent), countdown: -1}, now: time.Unix(1e9, 0)}
	for name, text := range files {
		v.write(filepath.Join(v.dir, name), []byte(text))
	}
	said := new(bytes.Buffer)
	v.cfg = Config{
		Dirs: []string{v.dir}, Files: &ReadFiles{Roots: []string{v.dir}}, Journal: v.journal, Topic: "called", Poll: time.Second, Once: true, Sink: v.k.sink,
		Logger: slog.New(slog.NewTextHandler(said, nil)),
	}
	return v, said
}

func (v *world) startAndPoll(n int) {
	v.t.Helper()
	require.NoError(v.t, v.start())
	for range n {
		require.NoError(v.t, v.poll())
	}
}

const goodRead = " runid=r\nACGT\n+\n!!!!\n"

// TestOtherBases: a read that comes again with other bases is reported once, and what was sent stays.
func TestOtherBases(t *testing.T) {
	v, said := attaching(t, map[string]string{"x.fastq": "@twice runid=r\nACGT\n+\n!!!!\n@twice runid=r\nACGA\n+\n!!!!\n@good" + goodRead})
	v.startAndPoll(6)
	_, err := v.w.done(v.now)
	v.stop()
	require.ErrorContains(t, err, "1 reads can't be used")
	require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("read twice is here with other bases than it was sent with, which stay")), said.String())
	require.Len(t, v.k.runs["r"].events, 3)
}

// TestDamagedReadsFile: a file that can't be read is reported once.
func TestDamagedReadsFile(t *testing.T) {
	b, err := os.ReadFile("../../basecall/input/testdata/dorado.bam")
	require.NoError(t, err)
	for i := range 64 {
		b[len(b)/2+i] ^= 0x5a
	}
	v, said := attaching(t, map[string]string{"x.bam": string(b)})
	v.startAndPoll(6)
	require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("a file is broken; the others go on")), said.String())
	whole, err := os.ReadFile("../../basecall/input/testdata/dorado.bam")
	require.NoError(t, err)
	copied := filepath.Join(v.dir, "x.part")
	v.write(copied, whole)
	require.NoError(t, os.Rename(copied, filepath.Join(v.dir, "x.bam")))
	for range 6 {
		require.NoError(t, v.poll())
	}
	_, err = v.w.done(v.now)
	v.stop()
	require.NoError(t, err, "it was copied again: %s", said.String())
	require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("a file can be read again")), said.String())
}

// TestLeftOutReads: reads that failed are left out unless they are asked for, and folders' names give barcodes.
func TestLeftOutReads(t *testing.T) {
	for _, failed := range []bool{false, true} {
		v, said := attaching(t, map[string]string{
			"run/fastq_pass/barcode02/x.fastq":      "@a" + goodRead,
			"run/fastq_pass/unclassified/x.fastq":   "@b" + goodRead,
			"run/fastq_fail/barcode02/x.fastq":      "@c" + goodRead,
			"run/bam_pass/barcode02/x.sam":          "d\t512\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tRG:Z:r\tDS:Z:runid=r\n",
			"run/bam_pass/barcode02/duplex.sam":     "e\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tdx:i:-1\tDS:Z:runid=r\n",
			"run/bam_pass/barcode02/x.bam.bai":      "an index",
			"run/sequencing_summary_FAX.txt":        "read_id\n",
			"run/fastq_pass/barcode02/final_failed": "no reads by its name",
		})
		v.cfg.Files.(*ReadFiles).Failed = failed
		v.startAndPoll(6)
		_, err := v.w.done(v.now)
		desc := v.k.runs["r"].desc
		v.stop()
		require.NoError(t, err, said.String())
		want := 2
		if failed {
			want = 4
		}
		require.Len(t, v.k.runs["r"].events, want+1)
		require.Len(t, desc.GetSamples(), 96)
		require.Contains(t, desc.GetSamples(), "r_barcode02")
	}
}

// TestBarcodesOfFileNames: a barcode that neither reads nor folders name is in the names of files, as Dorado and MinKNOW
// give them.
func TestBarcodesOfFileNames(t *testing.T) {
	v, _ := attaching(t, map[string]string{
		"SQK-RBK114-24_barcode01.fastq":                             "@a" + goodRead,
		"FAZ12345_pass_barcode02_5f3b1a4c_0123_0.fastq":             "@b" + goodRead,
		"unclassified.fastq":                                        "@c" + goodRead,
		"bam_pass/barcode04/FAZ_pass_barcode05_0.fastq":             "@d" + goodRead,
		"bam_pass/barcode04/FAZ_pass_barcode06_0.fastq":             "@e barcode=barcode07" + goodRead,
		"mybarcode08x.fastq":                                        "@f" + goodRead,
		"EXP-NBD104_barcode09.fastq.Ab12Cd":                         "@g" + goodRead,
		"run1/" + strings.Repeat("0", 40) + "_SQK_barcode10.sam":    "h\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tDS:Z:runid=r\n",
		"run1/" + strings.Repeat("0", 40) + "_SQK_unclassified.sam": "i\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tDS:Z:runid=r\n",
	})
	files := v.cfg.Files.(*ReadFiles)
	paths, err := files.Paths()
	require.NoError(t, err)
	got := make(map[string]string)
	for _, path := range paths {
		f, err := files.Open(path, 1<<20, nil, signal.Place{})
		require.NoError(t, err)
		found, err := f.Next()
		require.NoError(t, err)
		got[found.ID()] = found.(*calledRead).Barcode
		require.NoError(t, f.Close())
	}
	require.NoError(t, files.Close())
	require.Equal(t, map[string]string{
		"a": "barcode01", "b": "barcode02", "c": "unclassified", "d": "barcode04", "e": "barcode07", "f": "", "g": "barcode09",
		"h": "barcode10", "i": "unclassified",
	}, got)
}

// TestFoldersOfMinKNOWHoldSignalAndReads: MinKNOW's folder holds signal and reads; what lies in it holds one of both.
func TestFoldersOfMinKNOWHoldSignalAndReads(t *testing.T) {
	v, _ := attaching(t, map[string]string{
		"run/pod5_pass/x.pod5": "\x8bPOD\r\n\x1a\n", "run/fastq_pass/barcode01/x.fastq": "@a" + goodRead, "run/other_reports/x.csv": "a,b\n",
	})
	for path, want := range map[string]Contents{
		"run": {Signal: true, Reads: true}, "run/pod5_pass": {Signal: true}, "run/pod5_pass/x.pod5": {Signal: true},
		"run/fastq_pass": {Reads: true}, "run/fastq_pass/barcode01/x.fastq": {Reads: true}, "run/other_reports": {},
	} {
		got, err := Holds(filepath.Join(v.dir, path))
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	got, err := Holds("-")
	require.NoError(t, err)
	require.Equal(t, Contents{Reads: true}, got)
	_, err = Holds(filepath.Join(v.dir, "nowhere"))
	require.ErrorContains(t, err, "nowhere: no such file or directory")
}

// TestEmptyFiles: nothing is missing of a file that nothing was written to, nor when it goes away.
func TestEmptyFiles(t *testing.T) {
	v, said := attaching(t, map[string]string{"a.fastq": "@a" + goodRead, "b.fastq": "", "c.bam": "", "d.fastq.gz": ""})
	v.startAndPoll(1)
	require.NoError(t, os.Remove(filepath.Join(v.dir, "d.fastq.gz")))
	for range 6 {
		require.NoError(t, v.poll())
	}
	done, err := v.w.done(v.now)
	v.stop()
	require.NoError(t, err)
	require.True(t, done)
	require.NotContains(t, said.String(), "level=WARN")
}

// lateFeed has in Kafka only what was flushed.
type lateFeed struct {
	Feed
	put, flushed *int
}

func (f lateFeed) PutCalled(ctx context.Context, r *ingest.Called) error {
	*f.put++
	return f.Feed.PutCalled(ctx, r)
}

func (f lateFeed) Flush(context.Context) error {
	*f.flushed = *f.put
	return nil
}

// TestPipeBreaksOff: what came before the end of a pipe that breaks off is in Kafka when that is reported, and a pipe
// without a read has sent nothing.
func TestPipeBreaksOff(t *testing.T) {
	for _, c := range []struct {
		text, want string
		reads      int
	}{
		{"@a" + goodRead + "@b" + goodRead + "@c runid=r\nAC", "the file ends within a record: it is truncated; what came before it was sent, and its runs stay open", 2},
		{"@a" + goodRead + "what is this\n", "a record begins with 'w', want '@'; what came before it was sent, and its runs stay open", 1},
		{"what is this\n", `not FASTQ, SAM, BAM or CRAM (the file begins with "what is this\n")`, 0},
	} {
		v, _ := attaching(t, nil)
		put, flushed := 0, 0
		v.cfg.Sink = func(ctx context.Context, run *streampb.Run, fn func(context.Context, Feed) error) error {
			return v.k.sink(ctx, run, func(ctx context.Context, f Feed) error { return fn(ctx, lateFeed{f, &put, &flushed}) })
		}
		err := Pipe(t.Context(), v.cfg, &ReadFiles{}, "standard input", strings.NewReader(c.text), func() {})
		require.ErrorContains(t, err, c.want)
		require.True(t, strings.HasSuffix(err.Error(), c.want), err)
		require.Equal(t, []int{c.reads, c.reads}, []int{put, flushed})
	}
}

// forbiddenFiles are files of which some may not be read.
type forbiddenFiles struct {
	ReadFiles
	names string // of those that may not, one behind the other
}

func (f *forbiddenFiles) Open(path string, size int64, beside func(string) (int64, bool), from signal.Place) (File, error) {
	if strings.Contains(f.names, filepath.Base(path)) {
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrPermission}
	}
	return f.ReadFiles.Open(path, size, beside, from)
}

// TestRightsThatAreGivenLater: files that may not be read are reported once, take nobody's turn, and are read as soon as they
// may be, without a change of theirs. Then nothing is wrong any more.
func TestRightsThatAreGivenLater(t *testing.T) {
	content := map[string]string{"z.fastq": "@z" + goodRead}
	var names strings.Builder
	for i := range 3 * maxUnderWay {
		name := fmt.Sprintf("%03d.fastq", i)
		content[name] = fmt.Sprintf("@r%d%s", i, goodRead)
		names.WriteString(name)
	}
	for i := range 2 * newestTurns { // between those that may not be read, which are older, and the newest
		content[fmt.Sprintf("b%03d.fastq", i)] = fmt.Sprintf("@b%d%s", i, goodRead)
	}
	v, said := attaching(t, content)
	files := &forbiddenFiles{*v.cfg.Files.(*ReadFiles), names.String()}
	v.cfg.Files = files
	v.cfg.Once = false
	v.startAndPoll(6)
	require.Len(t, v.k.runs["r"].events, 2*newestTurns+1, "all others were read")
	require.Equal(t, 3*maxUnderWay, strings.Count(said.String(), "a file is broken; the others go on"))
	require.Len(t, v.w.broken, 3*maxUnderWay)
	files.names = ""
	for range 2 {
		require.NoError(t, v.poll())
	}
	require.Equal(t, 3*maxUnderWay, strings.Count(said.String(), "a file can be read again"))
	require.Len(t, v.k.runs["r"].events, len(content))
	v.w.cfg.Once = true
	for range 4 {
		require.NoError(t, v.poll())
	}
	_, err := v.w.done(v.now)
	v.stop()
	require.NoError(t, err)
}

// heldFiles are two files of many reads, of which the first holds memory until so many of its reads are read.
type heldFiles struct {
	ReadFiles
	until int64
}

type heldFile struct {
	File
	path  string
	until int64
}

func (f *heldFiles) Open(path string, size int64, beside func(string) (int64, bool), from signal.Place) (File, error) {
	g, err := f.ReadFiles.Open(path, size, beside, from)
	return heldFile{g, path, f.until}, err
}

func (f heldFile) Holding() bool {
	place, err := f.Place()
	return err == nil && filepath.Base(f.path) == "a.fastq" && place.Offset < f.until
}

// TestHeldFilesKeepTheirTurn: a file that holds much memory is read on until it doesn't, before others have their
// turn, which otherwise comes with every batch.
func TestHeldFilesKeepTheirTurn(t *testing.T) {
	const reads = 5 * batchReads
	content := func(name string) string {
		var b strings.Builder
		for i := range reads {
			fmt.Fprintf(&b, "@%s%d%s", name, i, goodRead)
		}
		return b.String()
	}
	for until, want := range map[int64]int{0: batchReads, batchReads + 1: 2 * batchReads, 4 * batchReads: 4 * batchReads, reads + 1: reads} {
		v, _ := attaching(t, map[string]string{"a.fastq": content("a"), "b.fastq": content("b")})
		for _, name := range []string{"a.fastq", "b.fastq"} { // as old as each other: their names decide who is first
			require.NoError(t, os.Chtimes(filepath.Join(v.dir, name), v.now, v.now))
		}
		v.cfg.Files = &heldFiles{*v.cfg.Files.(*ReadFiles), until}
		v.startAndPoll(20)
		v.stop()
		events := v.k.runs["r"].events
		require.Len(t, events, 2*reads+1)
		first := slices.IndexFunc(events, func(e event) bool { return strings.HasPrefix(e.read, "b") })
		require.Equal(t, want, first, "held until %d", until)
	}
}

// TestFaultsOfCalledReadsLoseNothingElse: whatever is wrong with one file or read of a folder, one line reports
// it, it is counted once, and every other read is sent once.
func TestFaultsOfCalledReadsLoseNothingElse(t *testing.T) {
	dorado, err := os.ReadFile("../../basecall/input/testdata/dorado.bam")
	require.NoError(t, err)
	cram, err := os.ReadFile("../../align/hts/cram/testdata/3.0.cram")
	require.NoError(t, err)
	const aligned = "@SQ\tSN:elsewhere\tLN:9\nforward\t0\telsewhere\t1\t60\t4M\t*\t0\t0\tACGT\t!!!!\tDS:Z:runid=r\nreverse\t16\telsewhere\t3\t60\t4M\t*\t0\t0\tAAGG\t!!!!\tDS:Z:runid=r\n" +
		"reverse\t272\telsewhere\t5\t0\t4M\t*\t0\t0\tAAGG\t!!!!\tDS:Z:runid=r\n"
	for name, tt := range map[string]struct {
		file, content string
		vanishes      bool
		line          string // once in the log; empty: nothing is said
		counted       string // metric
		more          int    // reads of the file that are sent
	}{
		"a BAM file that never gets its end":                 {"x.bam", string(dorado[:len(dorado)-28]), false, "a file was never finished", `porestream_ingest_watch_unfinished_files_total`, 0},
		"a quality of another length":                        {"x.fastq", "@bad runid=r\nACGT\n+\n!!\n@behind" + goodRead, false, "read bad: 2 qualities for 4 bases", `porestream_ingest_watch_faults_total{what="read"}`, 1},
		"a read that comes again with other bases":           {"x.fastq", "@twice runid=r\nACGT\n+\n!!!!\n@twice runid=r\nACGA\n+\n!!!!\n", false, "read twice is here with other bases than it was sent with", `porestream_ingest_watch_faults_total{what="read"}`, 1},
		"a file that vanishes":                               {"x.fastq", "@whole" + goodRead + "@half runid=r\nAC", true, "a file is gone that was not read to its end", `porestream_ingest_watch_faults_total{what="gone"}`, 1},
		"CRAM without its reference":                         {"x.cram", string(cram), false, "are kept by their differences to c2: name the FASTA that they are aligned to (--ref)", `porestream_ingest_watch_faults_total{what="file"}`, 0},
		"CRAM that never gets its end":                       {"x.cram", string(cram[:2000]), false, "a file was never finished", `porestream_ingest_watch_unfinished_files_total`, 0},
		"a FASTQ file that ends within its only read":        {"x.fastq", "@half runid=r\nAC", false, "a file was never finished", `porestream_ingest_watch_unfinished_files_total`, 0},
		"alignments to another reference, which are dropped": {"x.sam", aligned, false, "", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			v, said := attaching(t, map[string]string{"a/good.fastq": "@g1" + goodRead + "@g2" + goodRead, "b/" + tt.file: tt.content, "c/good.fastq": "@g3" + goodRead + "@g1" + goodRead})
			reg := prometheus.NewRegistry()
			v.cfg.Metrics, v.cfg.Once = NewMetrics(reg), false
			require.NoError(t, v.start())
			require.NoError(t, v.poll())
			require.NoError(t, v.poll())
			if tt.vanishes {
				require.NoError(t, os.Remove(filepath.Join(v.dir, "b", tt.file)))
			}
			for range 4 {
				require.NoError(t, v.poll())
			}
			events := len(v.k.runs["r"].events)
			v.w.cfg.IdleEnd = time.Nanosecond // nothing more comes
			for range 4 {
				v.now = v.now.Add(time.Hour)
				require.NoError(t, v.poll())
			}
			v.w.cfg.Once = true
			_, err := v.w.done(v.now)
			v.stop()
			require.Equal(t, 3+tt.more, events, said.String())
			if tt.line == "" {
				require.NoError(t, err)
				require.NotContains(t, said.String(), "level=WARN")
				require.NotContains(t, said.String(), "level=ERROR")
				return
			}
			require.Equal(t, 1, strings.Count(said.String(), tt.line), said.String())
			metric(t, reg, tt.counted, "1")
		})
	}
}
