package sorted

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
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

	"github.com/biogo/hts/bam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/modbasetest"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/wholefile"
)

const header = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:ref\tLN:100000\n" +
	"@RG\tID:run1_m\tPU:FAX1\tPM:X1\tSM:s\tDS:runid=run1\n@PG\tID:basecaller\tPN:x\n"

// line is a line of SAM with the tags that a basecaller writes. A read that is reverse is
// given as an aligner has it.
func line(name, sequence string, reverse bool) string {
	rng := rand.New(rand.NewPCG(7, uint64(len(sequence))))
	moves, samples := "0,0", 2
	qualities := make([]byte, len(sequence))
	for i := range sequence {
		qualities[i] = byte(33 + 5 + rng.IntN(30))
		frames := rng.IntN(4)
		moves += ",1" + strings.Repeat(",0", frames)
		samples += 1 + frames
	}
	place := "4\t*\t0\t0\t*"
	aligned := ""
	if reverse {
		place = fmt.Sprintf("16\tref\t100\t60\t%dM", len(sequence))
		sequence = string(demux.ReverseComplement([]byte(sequence)))
		aligned = "\tNM:i:3\tSA:Z:ref,1,+,4M,1,1;"
	}
	return fmt.Sprintf("%s\t%s\t*\t0\t0\t%s\t%s\tRG:Z:run1_m\tts:i:10\tns:i:%d%s\tmv:B:c,5,%s\n",
		name, place, sequence, qualities, samples*5+20, aligned, moves)
}

// barcoded returns reads of a kit, half of them aligned to the other strand.
func barcoded(t *testing.T, kit string) string {
	f, err := os.Open("../testdata/golden.tsv.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	var out strings.Builder
	out.WriteString(header)
	rng := rand.New(rand.NewPCG(44, 2))
	for n := 0; lines.Scan(); n++ {
		if v := strings.Split(lines.Text(), "\t"); v[0] == kit && (v[2] == "-" || strings.HasPrefix(v[2], "barcode")) {
			read := line(fmt.Sprintf("read%d/%s", n, v[2]), v[4], n%2 == 0)
			modified := modbasetest.Tagged(rng, []byte(v[4]))
			out.WriteString(strings.TrimSuffix(read, "\n") + "\t" + modified.Tags(n%3*len(v[4])/max(1, n%3)) + "\n")
		}
	}
	require.NoError(t, lines.Err())
	return out.String()
}

func classifier(t *testing.T, name string) *demux.Classifier {
	kit, err := demux.OpenKit(name)
	require.NoError(t, err)
	return demux.NewClassifier(kit, false)
}

func toDir(dir string) func(string) (File, error) {
	return func(name string) (File, error) { return wholefile.Create(filepath.Join(dir, name+".bam")) }
}

// TestReadsAndTagsGoWhereTheyBelong: reads of two kits go where they belong, cut or whole, and pysam finds
// sequences, qualities, moves, samples and modified bases consistent.
func TestReadsAndTagsGoWhereTheyBelong(t *testing.T) {
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	for _, tt := range []struct {
		kit     string
		trimmer *demux.Trimmer
	}{{"SQK-RBK004", demux.NewTrimmer(demux.Adapters(), demux.Primers())}, {"SQK-NBD114-96", nil}} {
		t.Run(tt.kit, func(t *testing.T) {
			dir := t.TempDir()
			text := barcoded(t, tt.kit)
			counts, err := Sort(strings.NewReader(text), toDir(dir), Options{
				Classifier: classifier(t, tt.kit), Trimmer: tt.trimmer, TrimBarcodes: true, Program: [3]string{"pore", "1", "pore demux"},
			})
			require.NoError(t, err)
			reads, wrong, without := int64(0), 0, int64(0)
			for _, n := range counts.Reasons {
				without += n
			}
			paths, err := filepath.Glob(filepath.Join(dir, "*.bam"))
			require.NoError(t, err)
			require.Equal(t, len(counts.Barcodes), len(paths))
			for _, c := range counts.Barcodes {
				reads += c.Reads
				if c.Barcode == demux.Unclassified {
					require.Equal(t, without, c.Reads)
					continue
				}
				for _, name := range names(t, filepath.Join(dir, c.Barcode+".bam")) {
					if !strings.HasSuffix(c.Barcode, name[strings.Index(name, "/")+1:]) {
						wrong++
					}
				}
			}
			require.Zero(t, wrong)
			require.Greater(t, reads, int64(100))
			in := filepath.Join(dir, "in.sam")
			require.NoError(t, os.WriteFile(in, []byte(text), 0o600))
			out, err := exec.CommandContext(t.Context(), python, append([]string{"testdata/check.py", in}, paths...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, fmt.Sprint(reads), strings.TrimSpace(string(out)))
		})
	}
}

func names(t *testing.T, path string) []string {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := bam.NewReader(f, 1)
	require.NoError(t, err)
	var list []string
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, record.Name)
	}
}

// memory keeps files.
type memory map[string]*bytes.Buffer

type kept struct{ *bytes.Buffer }

func (kept) Finish(err error) error { return err }

func (m memory) create(name string) (File, error) {
	m[name] = new(bytes.Buffer)
	return kept{m[name]}, nil
}

// TestSortByTag: reads that were classified before are sorted by their tag, with their alignments.
func TestSortByTag(t *testing.T) {
	text := header +
		"r1\t0\tref\t1\t60\t4M\t*\t0\t0\tACGT\tIIII\tBC:Z:patient-1\n" +
		"r1\t2048\tref\t50\t60\t4M\t*\t0\t0\tACGT\tIIII\n" +
		"r2\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\tBC:Z:unclassified\n" +
		"r3\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\n"
	files := make(memory)
	counts, err := Sort(strings.NewReader(text), files.create, Options{})
	require.NoError(t, err)
	require.Equal(t, []Count{{Barcode: "patient-1", Reads: 1, Bases: 4}, {Barcode: "unclassified", Reads: 2, Bases: 8}}, counts.Barcodes)
	r, err := bam.NewReader(files["patient-1"], 1)
	require.NoError(t, err)
	require.Equal(t, "ref", r.Header().Refs()[0].Name())
	first, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, 0, first.Pos)
	second, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, "r1", second.Name)
}

// TestNoFileIsKeptAfterAnError: files of a part of the reads would pass for those of all.
func TestNoFileIsKeptAfterAnError(t *testing.T) {
	read := func(name, barcode string) string {
		return name + "\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\tBC:Z:" + barcode + "\n"
	}
	for _, tt := range []struct{ last, says string }{
		{read("r3", "../c"), `record 3: read r3: the tag BC is "../c"`},
		{"r3\t4\n", "record 3: "},
		{read("r3", "c"), "record 3: there is no room for c"},
	} {
		dir := t.TempDir()
		create := toDir(dir)
		_, err := Sort(strings.NewReader(header+read("r1", "a")+read("r2", "b")+tt.last), func(name string) (File, error) {
			if name == "c" {
				return nil, errors.New("there is no room for c")
			}
			return create(name)
		}, Options{})
		require.ErrorContains(t, err, tt.says)
		require.NotContains(t, err.Error(), "\n")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestSortAlias: a sheet names the samples of the run's flow cell.
func TestSortAlias(t *testing.T) {
	sheet, err := demux.ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,barcode,alias\nSQK-RBK004,e,FAX1,barcode02,patient-7\n"))
	require.NoError(t, err)
	files := make(memory)
	counts, err := Sort(strings.NewReader(barcoded(t, "SQK-RBK004")), files.create, Options{Classifier: classifier(t, "SQK-RBK004"), Sheet: sheet})
	require.NoError(t, err)
	require.Contains(t, files, "patient-7")
	require.NotContains(t, files, "SQK-RBK004_barcode02")
	require.Contains(t, files, "SQK-RBK004_barcode03")
	require.Equal(t, "patient-7", counts.Barcodes[len(counts.Barcodes)-2].Alias)
	r, err := bam.NewReader(files["patient-7"], 1)
	require.NoError(t, err)
	require.Equal(t, "run1_m_patient-7", r.Header().RGs()[0].Name())
	require.Contains(t, r.Header().RGs()[0].String(), "\tSM:patient-7")
}

// TestSortDual: reads with two barcodes are sorted by the pair, as a sheet has it; sorted reads
// are sorted by their tag as well, with a sheet and without a kit.
func TestSortDual(t *testing.T) {
	kit, err := demux.OpenKit("SQK-NBD114-24")
	require.NoError(t, err)
	inner, err := demux.OpenKit("EXP-PBC096")
	require.NoError(t, err)
	kit.Inner = &inner
	sheet, err := demux.ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,external_barcode,internal_barcode,alias\n" +
		"SQK-NBD114-24 EXP-PBC096,e,FAX1,barcode07,barcode02,patient-7\nSQK-NBD114-24 EXP-PBC096,e,FAX1,barcode02,barcode07,\n"))
	require.NoError(t, err)
	insert := strings.Repeat("ACGGTCATTGCAACTG", 30)
	text := header
	for _, n := range [][2]int{{7, 2}, {2, 7}, {7, 7}, {3, 3}} {
		text += line(fmt.Sprintf("read%d_%d", n[0], n[1]), kit.Front.Outer+kit.Barcodes[n[0]-1].Front+kit.Front.Inner+
			inner.Front.Outer+inner.Barcodes[n[1]-1].Front+inner.Front.Inner+insert, n[0] == 2)
	}
	listed, err := kit.Only(sheet.Barcodes())
	require.NoError(t, err)
	sorted, bases := make(memory), int64(len(insert))
	counts, err := Sort(strings.NewReader(text), sorted.create, Options{Classifier: demux.NewClassifier(listed, false), Sheet: sheet, TrimBarcodes: true})
	require.NoError(t, err)
	require.Equal(t, Count{Barcode: "SQK-NBD114-24_EXP-PBC096_barcode02_07", Reads: 1, Bases: bases}, counts.Barcodes[0])
	require.Equal(t, Count{Barcode: "patient-7", Alias: "patient-7", Reads: 1, Bases: bases}, counts.Barcodes[1])
	require.Equal(t, int64(2), counts.Barcodes[2].Reads)
	require.Equal(t, map[demux.Reason]int64{demux.UnlistedPair: 1, demux.NoBarcode: 1}, counts.Reasons)

	// Without a sheet all pairs are searched for, and each is named by both kits.
	every := make(memory)
	counts, err = Sort(strings.NewReader(text), every.create, Options{Classifier: demux.NewClassifier(kit, false)})
	require.NoError(t, err)
	require.Len(t, counts.Barcodes, 4)
	again := make(memory)
	counts, err = Sort(every["SQK-NBD114-24_EXP-PBC096_barcode07_02"], again.create, Options{Sheet: sheet})
	require.NoError(t, err)
	require.Len(t, counts.Barcodes, 1)
	require.Equal(t, "patient-7", counts.Barcodes[0].Alias)
	require.Equal(t, []string(nil), counts.Silent)
}

func TestSortRefuses(t *testing.T) {
	rapid := classifier(t, "SQK-RBK004")
	read := strings.SplitN(barcoded(t, "SQK-RBK004"), "\n", 7)[4] + "\n"
	whole := Options{Classifier: rapid, Trimmer: demux.NewTrimmer(demux.Adapters(), demux.Primers()), TrimBarcodes: true}
	for _, tt := range []struct {
		name, text, says string
		opts             Options
	}{
		{"empty", "", "the file has 0 bytes", whole},
		{"no SAM", "\x1f\x8bnot really", "this is neither SAM nor BAM", whole},
		{"broken", header + "r1\t0\n", "record 1", whole},
		{"moves", header + strings.Replace(read, "mv:B:c,5,0,0,1", "mv:B:c,5,0,0,0", 1), "its tag mv has fewer bases than its sequence", whole},
		{"moves of another kind", header + read[:strings.Index(read, "mv:B")] + "mv:Z:x\n", "its tag mv is no table", whole},
		{"hard clips", header + "r1\t0\tref\t1\t60\t2H4M\t*\t0\t0\tACGT\tIIII\n", "read r1 is hard-clipped", whole},
		{"a barcode that leaves the folder", header + "r1\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\tBC:Z:../../etc\n", `the tag BC is "../../etc"`, Options{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Sort(strings.NewReader(tt.text), make(memory).create, tt.opts)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

// TestUntrueModifiedBases: tags that are of another read are dropped, whether or not it is cut, and
// counted by reason; the reads stay.
func TestUntrueModifiedBases(t *testing.T) {
	read := strings.Split(strings.SplitN(barcoded(t, "SQK-RBK004"), "\n", 7)[4], "\tMM:Z:")[0]
	text := header
	tags := []string{"MM:Z:C+m,9999;\tML:B:C,1", "MM:Z:C+m,1;\tML:B:C", "MM:Z:C+m,2;\tML:B:C,1\tMN:i:1", "MM:Z:C+m,3;\tML:B:C,1", "MM:Z:C+m,9999;\tML:B:C,1\tMN:i:1"}
	for i, tag := range tags {
		text += fmt.Sprintf("%d%s\t%s\n", i, read, tag)
	}
	for name, opts := range map[string]Options{
		"cut":   {Classifier: classifier(t, "SQK-RBK004"), TrimBarcodes: true},
		"whole": {Classifier: classifier(t, "SQK-RBK004")},
	} {
		t.Run(name, func(t *testing.T) {
			files := make(memory)
			counts, err := Sort(strings.NewReader(text), files.create, opts)
			require.NoError(t, err)
			require.EqualValues(t, len(tags), counts.Barcodes[0].Reads)
			reads := make(map[error]int64)
			for _, fault := range counts.Untrue.List() {
				reads[fault.Reason] = fault.Reads
			}
			require.Equal(t, map[error]int64{modbase.ErrBehind: 1, modbase.ErrProbabilities: 1, modbase.ErrLength: 2}, reads)
			r, err := bam.NewReader(files[counts.Barcodes[0].Barcode], 1)
			require.NoError(t, err)
			for i := range tags {
				record, err := r.Read()
				require.NoError(t, err)
				_, modified := record.Tag([]byte("MM"))
				_, length := record.Tag([]byte("MN"))
				require.Equal(t, i == 3, modified)
				require.Equal(t, i == 3 && name == "cut", length)
			}
		})
	}
}

// linesOf are the records of a BAM file as lines of SAM.
func linesOf(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := hts.NewBAMReader(f, 1)
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := hts.NewWriter(&out, hts.SAM, nil, r.Header().Refs(), 1)
	require.NoError(t, err)
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
	}
	require.NoError(t, w.Close())
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// TestLeavesTheRest: what a record says beside its barcode is the same to the byte, whether it
// goes by its tag, and stays aligned, or is classified, and becomes the read as sequenced.
func TestLeavesTheRest(t *testing.T) {
	const sequence, qualities = "ACGTTGCAACGGTTACGATA", "!\"#$%&'()*+,-./01234"
	const tags = "\tRG:Z:run1_m\tML:B:C\tMM:Z:\ter:Z:\tqs:f:17.5\tXH:H:1AE3\txt:A:P\txs:B:s,-300,7"
	reversed := func(text string) string {
		b := []byte(text)
		slices.Reverse(b)
		return string(b)
	}
	var text strings.Builder
	text.WriteString(header)
	var want []string
	for _, flag := range []int{0, 16, 4, 256, 2048, 2064, 1024, 512, 1040} {
		for _, qual := range []string{qualities, "*"} {
			place, seq := "ref\t100\t60\t20M", sequence
			if flag == 4 {
				place = "*\t0\t0\t*"
			}
			if flag&16 != 0 {
				seq = string(demux.ReverseComplement([]byte(sequence)))
			}
			line := fmt.Sprintf("r%d%d\t%d\t%s\t*\t0\t0\t%s\t%s%s\tBC:Z:x", flag, len(qual), flag, place, seq, qual, tags)
			want = append(want, line)
			text.WriteString(line + "\n")
		}
	}
	dir := t.TempDir()
	_, err := Sort(strings.NewReader(text.String()), toDir(dir), Options{Program: [3]string{"pore", "1", "pore demux"}})
	require.NoError(t, err)
	require.Equal(t, want, linesOf(t, filepath.Join(dir, "x.bam")))

	classified := t.TempDir()
	counts, err := Sort(strings.NewReader(text.String()), toDir(classified), Options{Classifier: classifier(t, "SQK-RBK004"), Program: [3]string{"pore", "1", "pore demux"}})
	require.NoError(t, err)
	require.Equal(t, int64(6), counts.Secondary)
	kept := 0
	got := linesOf(t, filepath.Join(classified, "unclassified.bam"))
	for _, line := range want {
		columns := strings.Split(line, "\t")
		flag, err := strconv.Atoi(columns[1])
		require.NoError(t, err)
		if flag&(256|2048) != 0 {
			continue
		}
		qual := columns[10]
		if flag&16 != 0 {
			qual = reversed(qual)
		}
		start := fmt.Sprintf("%s\t%d\t*\t0\t0\t*\t*\t0\t0\t%s\t%s%s\tBC:Z:unclassified\tbi:", columns[0], 4|flag&512, sequence, qual, tags)
		require.Equal(t, start, got[kept][:min(len(start), len(got[kept]))])
		kept++
	}
	require.Equal(t, kept, len(got))
}

// TestHeaderLines: what a header says of other things than barcodes is in each file as it was.
func TestHeaderLines(t *testing.T) {
	const rest = "@RG\tID:run1_m\tDT:2026-03-01T10:11:12.345+02:00\tPU:FAX1\tSM:s\n@PG\tID:basecaller\tPN:x\n@CO\ta\tb\n"
	in := "@HD\tVN:1.6\tSO:coordinate\tGO:none\n@SQ\tSN:ref\tLN:100000\n" + rest + strings.TrimSuffix(line("a", "ACGTACGT", false), "\n") + "\tBC:Z:x\n"
	dir := t.TempDir()
	_, err := Sort(strings.NewReader(in), toDir(dir), Options{Program: [3]string{"pore", "1", "pore demux"}})
	require.NoError(t, err)
	f, err := os.Open(filepath.Join(dir, "x.bam"))
	require.NoError(t, err)
	defer f.Close()
	r, err := hts.NewBAMReader(f, 1)
	require.NoError(t, err)
	require.Equal(t, "@HD\tVN:1.6\tSO:coordinate\tGO:none\n@SQ\tSN:ref\tLN:100000\n"+
		strings.Replace(rest, "@CO", "@PG\tID:demux\tPN:pore\tCL:pore demux\tPP:basecaller\tVN:1\n@CO", 1), strings.Join(r.Lines(), "\n")+"\n")
}

// TestSheetByTag: without a kit a sheet names the samples of barcodes that reads have already, in file names,
// tags and read groups; names without a read are reported, and a sheet of another flow cell is refused.
func TestSheetByTag(t *testing.T) {
	const groups = "@HD\tVN:1.6\n@RG\tID:r_m\tPU:FAX1\tSM:s\tDS:basecall_model=m runid=r\n" +
		"@RG\tID:r_m_SQK-RBK004_barcode01\tPU:FAX1\tSM:barcode01\tDS:basecall_model=m runid=r\n@RG\tID:r_m_SQK-RBK004_barcode02\tPU:FAX1\tSM:barcode02\tDS:basecall_model=m runid=r\n"
	text := groups
	for i, tags := range []string{
		"RG:Z:r_m_SQK-RBK004_barcode01\tBC:Z:SQK-RBK004_barcode01", "RG:Z:r_m_SQK-RBK004_barcode02\tBC:Z:SQK-RBK004_barcode02", "RG:Z:r_m\tBC:Z:barcode02",
		"RG:Z:r_m\tBC:Z:barcode07", "RG:Z:r_m\tBC:Z:unclassified", "RG:Z:r_m",
	} {
		text += fmt.Sprintf("r%d\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\t%s\n", i, tags)
	}
	sheet := func(flowCell string) *demux.Sheet {
		s, err := demux.ParseSheet(strings.NewReader("experiment_id,kit,flow_cell_id,alias,barcode\ne,SQK-RBK004," + flowCell + ",one,barcode01\ne,SQK-RBK004," + flowCell + ",two,barcode02\ne,SQK-RBK004," + flowCell + ",three,barcode03\n"))
		require.NoError(t, err)
		return s
	}
	dir := t.TempDir()
	counts, err := Sort(strings.NewReader(text), toDir(dir), Options{Sheet: sheet("FAX1"), Program: [3]string{"pore", "1", "pore demux"}})
	require.NoError(t, err)
	require.Equal(t, []string{"three"}, counts.Silent)
	require.Empty(t, counts.Warnings)
	reads := make(map[string]int64)
	for _, c := range counts.Barcodes {
		reads[c.Barcode] = c.Reads
	}
	require.Equal(t, map[string]int64{"one": 1, "two": 2, "barcode07": 1, "unclassified": 2}, reads)
	require.Equal(t, "r1\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t!!!!\tRG:Z:r_m_SQK-RBK004_barcode02\tBC:Z:two", linesOf(t, filepath.Join(dir, "two.bam"))[0])
	f, err := os.Open(filepath.Join(dir, "two.bam"))
	require.NoError(t, err)
	defer f.Close()
	r, err := hts.NewBAMReader(f, 1)
	require.NoError(t, err)
	require.Equal(t, "@RG\tID:r_m_SQK-RBK004_barcode02\tPU:FAX1\tSM:two\tDS:basecall_model=m runid=r\tal:two", r.Lines()[3])
	require.Equal(t, "@RG\tID:r_m_SQK-RBK004_barcode01\tPU:FAX1\tSM:barcode01\tDS:basecall_model=m runid=r", r.Lines()[2])

	_, err = Sort(strings.NewReader(text), toDir(t.TempDir()), Options{Sheet: sheet("FAX2"), Program: [3]string{"pore", "1", "pore demux"}})
	require.ErrorContains(t, err, "the sample sheet: no row is of run r (flow cell FAX1, position unknown): the rows are of flow cell FAX2")
	// A file without read groups says nothing of its run: the sheet is of one, so it counts.
	bare := strings.ReplaceAll(text[strings.Index(text, "r0\t"):], "RG:Z:", "xx:Z:")
	counts, err = Sort(strings.NewReader(bare), toDir(t.TempDir()), Options{Sheet: sheet("FAX2"), Program: [3]string{"pore", "1", "pore demux"}})
	require.NoError(t, err)
	require.Equal(t, []string{"three"}, counts.Silent)
}
