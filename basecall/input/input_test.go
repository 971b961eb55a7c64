package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biogo/hts/bgzf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/genome"
)

const (
	testRun   = "f7c9b0d4a1e2334455667788990011223344aabb"
	testModel = "dna_r10.4.1_e8.2_400bps_hac@v5.0.0"
	testID    = "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// TestTitles: what the basecallers' titles state, in all three conventions.
func TestTitles(t *testing.T) {
	for name, c := range map[string]struct {
		title string
		want  Read
	}{
		"bare": {testID, Read{}},
		"MinKNOW": {
			testID + " runid=" + testRun + " ch=417 start_time=2026-03-01T10:00:00.250+01:00 flow_cell_id=FAX12345 basecall_gpu=A100 protocol_group_id=exp1 sample_id=plate7 barcode=barcode02 barcode_alias=patient-2 parent_read_id=" + testID + " basecall_model_version_id=" + testModel,
			Read{Run: testRun, Channel: 417, Start: at("2026-03-01T10:00:00.250+01:00"), FlowCell: "FAX12345", Experiment: "exp1", Sample: "plate7", Barcode: "barcode02", Alias: "patient-2", Model: testModel},
		},
		"MinKNOW without a barcode": {
			testID + " runid=" + testRun + " ch=1 barcode=unclassified parent_read_id=1b0e9f6a-24a4-4b64-a8d0-7a0b2f0ad2e5 basecall_model_version_id=" + testModel,
			Read{Run: testRun, Channel: 1, Barcode: Unclassified, Parent: "1b0e9f6a-24a4-4b64-a8d0-7a0b2f0ad2e5", Model: testModel},
		},
		"Guppy": {
			testID + " runid=" + testRun + " sampleid=lambda read=1234 ch=5 start_time=2019-10-01T10:11:12Z model_version_id=2021-05-17_dna_r9.4.1_minion_384_d37a2ab9",
			Read{Run: testRun, Sample: "lambda", Number: 1234, Channel: 5, Start: at("2019-10-01T10:11:12Z"), Model: "2021-05-17_dna_r9.4.1_minion_384_d37a2ab9"},
		},
		"Dorado": {
			testID + "\tqs:f:12.5\tdu:f:1.25\tns:i:6250\tts:i:40\tch:i:417\tst:Z:2026-03-01T10:00:00.250+00:00\trn:i:77\tRG:Z:" + testRun + "_" + testModel + "_SQK-NBD114-24_barcode02\tBC:Z:SQK-NBD114-24_barcode02\tpi:Z:parent\tsp:i:400",
			Read{
				Run: testRun, Model: testModel, Barcode: "barcode02", Channel: 417, Number: 77, Start: at("2026-03-01T10:00:00.250+00:00"),
				MeanQuality: 12.5, Duration: 1.25, Samples: 6250, Trimmed: 40, Parent: "parent", ParentStart: 400,
			},
		},
		"Dorado, whole qualities": {testID + "\tqs:i:12\tRG:Z:" + testRun + "_" + testModel, Read{Run: testRun, Model: testModel, MeanQuality: 12}},
		"two barcodes":            {testID + "\tRG:Z:" + testRun + "_" + testModel + "_SQK-NBD114-24_EXP-PBC096_barcode02_07", Read{Run: testRun, Model: testModel, Barcode: "barcode02_07"}},
		"run of a UUID":           {testID + "\tRG:Z:00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11_" + testModel, Read{Run: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", Model: testModel}},
		"a barcode of bases":      {testID + "\tBC:Z:ACGTACGT-TTGCA", Read{}},
		"an alias as barcode":     {testID + "\tBC:Z:patient-2", Read{Barcode: "patient-2", Alias: "patient-2"}},
		"modified bases":          {testID + "\tMM:Z:C+m?,1;\tML:B:C,3,250\tMN:i:4", Read{Modified: "C+m?,1;", ModifiedProbabilities: []byte{3, 250}, ModifiedLength: 4}},
		"moves":                   {testID + "\tmv:B:c,6,1,0,1,1,0,0,1", Read{Dwells: []byte{2, 1, 3, 1}, Stride: 6}},
		"moves of other bases":    {testID + "\tmv:B:c,6,1,0,1", Read{}},
		"parent of a duplex read": {testID + "\tdx:i:-1", Read{DuplexParent: true}},
		"duplex read":             {testID + "\tdx:i:1", Read{}},
		"blanks between tags":     {testID + " 1:N:0:ACGT comment", Read{}},
		"nonsense": {testID + "\tqs:f:nan\tns:i:-4\tch:i:x\tmv:B:c,\tML:B:C\tXX:Q:1\tdu:f:-1 runid read= =5",
			Read{}},
	} {
		r, err := NewReader(strings.NewReader("@"+c.title+"\nACGU\n+\n!\"#~\n"), cram.Options{})
		require.NoError(t, err, name)
		got, err := r.Next()
		require.NoError(t, err, name)
		c.want.ID, c.want.Sequence, c.want.Qualities = testID, []byte("ACGU"), []byte{0, 1, 2, 93}
		assert.Equal(t, &c.want, got, name)
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF, name)
	}
}

// readAll reads all reads of a reader, and the errors of records.
func readAll(t *testing.T, next func() (*Read, error)) (reads []*Read, refused []string) {
	t.Helper()
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return reads, refused
		}
		if _, record := errors.AsType[*RecordError](err); record {
			refused = append(refused, err.Error())
			continue
		}
		require.NoError(t, err)
		reads = append(reads, r)
	}
}

func open(t *testing.T, name string) []*Read {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	r, err := NewReader(f, cram.Options{})
	require.NoError(t, err)
	reads, refused := readAll(t, r.Next)
	require.Empty(t, refused)
	return reads
}

// TestSAMAndBAMAgree: samtools' BAM of a SAM file reads as the file, as sequenced, without
// what says of a read what another record says.
func TestSAMAndBAMAgree(t *testing.T) {
	fromSAM, fromBAM := open(t, "dorado.sam"), open(t, "dorado.bam")
	require.Len(t, fromSAM, 40)
	for i, want := range fromSAM {
		// BAM holds numbers in less than a text does.
		assert.InDelta(t, want.MeanQuality, fromBAM[i].MeanQuality, 1e-5)
		fromBAM[i].MeanQuality, fromBAM[i].Duration = want.MeanQuality, want.Duration
		assert.Equal(t, want, fromBAM[i])
		assert.Equal(t, []any{testRun, "plate7", "FAX12345", "MN1", testModel, 6}, []any{want.Run, want.Sample, want.FlowCell, want.Position, want.Model, want.Stride})
		assert.Equal(t, i == 9, want.Failed)
		if i%2 == 1 {
			assert.Equal(t, []any{"barcode02", "patient-2"}, []any{want.Barcode, want.Alias})
		}
		if i%2 == 0 {
			assert.Equal(t, Unclassified, want.Barcode, "the header has a barcode, and the read none")
		}
		assert.Len(t, want.Dwells, len(want.Sequence))
	}
	assert.Equal(t, byte(255), fromSAM[7].Dwells[3], "as long as can be told")
}

// TestReverseComplementedReads: a read on the reverse strand is reverse-complemented to the direction
// in which it was sequenced, to the last letter, and moves stay as they are.
func TestReverseComplementedReads(t *testing.T) {
	const line = "a\t16\tchr1\t1\t60\t6M\t*\t0\t0\tAACGRn\t123456\tmv:B:c,5,1,1,1,1,1,0,1\n"
	r, err := NewReader(strings.NewReader(line), cram.Options{})
	require.NoError(t, err)
	reads, _ := readAll(t, r.Next)
	require.Len(t, reads, 1)
	assert.Equal(t, "NYCGTT", string(reads[0].Sequence))
	assert.Equal(t, []byte{'6' - 33, '5' - 33, '4' - 33, '3' - 33, '2' - 33, '1' - 33}, reads[0].Qualities)
	assert.Equal(t, []byte{1, 1, 1, 1, 2, 1}, reads[0].Dwells)
}

// compressed is a text in every way that files are compressed.
func compressed(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(len(text)), 9))
	var one, many, blocks bytes.Buffer
	z := gzip.NewWriter(&one)
	_, err := z.Write(text)
	require.NoError(t, errors.Join(err, z.Close()))
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(3000))
		z := gzip.NewWriter(&many)
		_, err := z.Write(rest[:n])
		require.NoError(t, errors.Join(err, z.Close()))
		rest = rest[n:]
	}
	b := bgzf.NewWriter(&blocks, 1)
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(3000))
		_, err := b.Write(rest[:n])
		require.NoError(t, errors.Join(err, b.Flush()))
		rest = rest[n:]
	}
	require.NoError(t, b.Close())
	return map[string][]byte{"plain": text, "one member": one.Bytes(), "many members": many.Bytes(), "BGZF": blocks.Bytes()}
}

// fastqOf writes reads as FASTQ.
func fastqOf(reads []*Read) []byte {
	var b bytes.Buffer
	for _, r := range reads {
		b.WriteString("@" + r.ID + " runid=" + r.Run + "\n" + string(r.Sequence) + "\n+\n")
		for _, q := range r.Qualities {
			b.WriteByte(q + 33)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// TestGrowingFiles: of a file that grows, byte by byte if need be, every read is given once,
// none before it is there, and nothing is an error; whether the file could end is reported.
func TestGrowingFiles(t *testing.T) {
	want := open(t, "dorado.sam")
	files := compressed(t, fastqOf(want))
	for _, name := range []string{"dorado.sam", "dorado.bam", "dorado.cram"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		files[name] = b
	}
	bam, err := os.ReadFile(filepath.Join("testdata", "dorado.bam"))
	require.NoError(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(bam))
	require.NoError(t, err)
	inside, err := io.ReadAll(plain)
	require.NoError(t, err)
	files["BAM of small blocks"] = compressed(t, inside)["BGZF"]
	for name, whole := range files {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, 3))
			path := filepath.Join(t.TempDir(), "x")
			require.NoError(t, os.WriteFile(path, whole[:0], 0o600))
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			var g *Growing
			var got []*Read
			for size := 0; size < len(whole); {
				n := min(len(whole)-size, 1+rng.IntN([]int{3, 40, 700, 9000, 90_000, 1 << 20}[seed]))
				if size > 0 && seed < 2 && size < len(whole)-2000 {
					n = min(len(whole)-size, 50*n) // byte by byte at both ends only
				}
				_, err := f.Write(whole[size : size+n])
				require.NoError(t, err)
				size += n
				if g == nil {
					if g, err = OpenGrowing(path, int64(size), cram.Options{}); errors.Is(err, ErrUnfinished) {
						g = nil
						continue
					}
					require.NoError(t, err, name)
				}
				g.Extend(int64(size))
				for {
					r, err := g.Next()
					if err != nil {
						require.True(t, errors.Is(err, ErrUnfinished) || errors.Is(err, io.EOF), "%s: %v", name, err)
						if size == len(whole) {
							require.ErrorIs(t, err, io.EOF, name)
						}
						break
					}
					got = append(got, r)
				}
				if seed%2 == 1 {
					g.Rest()
				}
			}
			require.NoError(t, errors.Join(g.Close(), f.Close()))
			require.Len(t, got, len(want), "%s, seed %d", name, seed)
			for i := range want {
				require.Equal(t, want[i].ID, got[i].ID, name)
				require.Equal(t, string(want[i].Sequence), string(got[i].Sequence), name)
				require.Equal(t, want[i].Qualities, got[i].Qualities, name)
			}
		}
	}
}

// TestRestBetweenMembers: a file that could end where it was read to keeps nothing but its place, and goes on from
// there when its writer does.
func TestRestBetweenMembers(t *testing.T) {
	want := open(t, "dorado.sam")
	half := len(want) / 2
	path := filepath.Join(t.TempDir(), "x.fastq.gz")
	first, rest := compressed(t, fastqOf(want[:half]))["one member"], compressed(t, fastqOf(want[half:]))["many members"]
	require.NoError(t, os.WriteFile(path, append(first, rest...), 0o600))
	g, err := OpenGrowing(path, int64(len(first)), cram.Options{})
	require.NoError(t, err)
	var got []string
	drain := func() {
		for {
			r, err := g.Next()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			got = append(got, r.ID)
		}
	}
	drain()
	require.Len(t, got, half)
	g.Rest()
	source := g.source.(*growingGzip)
	require.Nil(t, source.inflate, "between two members nothing is decompressed")
	require.EqualValues(t, len(first), source.at)
	drain()
	require.Len(t, got, half)
	g.Extend(int64(len(first) + len(rest)))
	drain()
	require.NoError(t, g.Close())
	for i, r := range want {
		require.Equal(t, r.ID, got[i])
	}
}

// TestTruncatedFiles: a file that never gets its end is reported, and what is there is read.
func TestTruncatedFiles(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "dorado.bam"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "x.bam")
	for cut, want := range map[int]error{28: ErrUnfinished, 27: ErrUnfinished, 0: io.EOF} {
		require.NoError(t, os.WriteFile(path, whole[:len(whole)-cut], 0o600))
		g, err := OpenGrowing(path, int64(len(whole)-cut), cram.Options{})
		require.NoError(t, err)
		n := 0
		for err == nil {
			if _, err = g.Next(); err == nil {
				n++
			}
		}
		require.ErrorIs(t, err, want, "cut by %d", cut)
		assert.Equal(t, 40, n)
		require.NoError(t, g.Close())
	}
	r, err := NewReader(bytes.NewReader(whole[:len(whole)/2]), cram.Options{})
	require.NoError(t, err)
	for err == nil {
		_, err = r.Next()
	}
	require.ErrorContains(t, err, "truncated")
}

// TestBadRecords: a record that can't be used is reported, and the others are read;
// where the records that follow can't be found, that is reported with its place.
func TestBadRecords(t *testing.T) {
	const good = "@good\nAC\n+\n!!\n"
	for name, c := range map[string]struct {
		text    string
		reads   int
		refused string
		err     string
	}{
		"qualities too few":  {good + "@bad\nACG\n+\n!!\n" + good, 2, "record at byte 14: read bad: 2 qualities for 3 bases", ""},
		"no letter":          {good + "@bad\nA-G\n+\n!!!\n" + good, 2, `read bad: '-' is no letter of a sequence`, ""},
		"no quality":         {good + "@bad\nACG\n+\n! !\n" + good, 2, `read bad: ' ' is no quality`, ""},
		"no name":            {good + "@ x=1\nAC\n+\n!!\n" + good, 2, "a record without a name", ""},
		"blank lines":        {good + "\n\n" + good + "\n", 2, "", ""},
		"no end":             {good[:len(good)-1], 1, "", ""},
		"carriage returns":   {"@good\r\nAC\r\n+\r\n!!\r\n", 1, "", ""},
		"two lines of bases": {good + "@bad\nACG\nACG\n+\n!!!!!!\n", 1, "", "want '+' after one line of sequence of read bad"},
		"no @":               {good + "bad\nACG\n+\n!!!\n", 1, "", `record at byte 14: a record begins with 'b', want '@'`},
		"cut":                {good + "@bad\nACG\n+\n", 1, "", "the file ends within a record: it is truncated"},
		"FASTA":              {">a\nACGT\n", 0, "", "this is FASTA"},
		"CRAM, cut off":      {"CRAM\x03\x00", 0, "", "the container that ends a CRAM file is missing"},
		"POD5":               {"\x8bPOD\r\n\x1a\n" + strings.Repeat("x", 64), 0, "", "this is POD5, signal that is not called"},
		"a picture":          {"\x89PNG\r\n", 0, "", "not FASTQ, SAM, BAM or CRAM"},
		"nothing":            {"", 0, "", ""},
		"SAM, few fields":    {"@HD\tVN:1.6\na\t4\t*\na\t4\t*\t0\t0\t*\t*\t0\t0\tAC\t!!\n", 1, "a line of 3 fields", ""},
		"SAM, no flags":      {"@HD\tVN:1.6\na\tx\t*\t0\t0\t*\t*\t0\t0\tAC\t!!\na\t4\t*\t0\t0\t*\t*\t0\t0\tAC\t!!\n", 1, `"x" are no flags`, ""},
		"SAM, few qualities": {"@HD\tVN:1.6\na\t4\t*\t0\t0\t*\t*\t0\t0\tACG\t!!\na\t4\t*\t0\t0\t*\t*\t0\t0\tAC\t*\n", 1, "2 qualities for 3 bases", ""},
	} {
		r, err := NewReader(strings.NewReader(c.text), cram.Options{})
		require.NoError(t, err, name)
		n, refused := 0, ""
		for err == nil {
			_, err = r.Next()
			if _, record := errors.AsType[*RecordError](err); record {
				refused, err = err.Error(), nil
				continue
			}
			if err == nil {
				n++
			}
		}
		assert.Equal(t, c.reads, n, name)
		if c.refused == "" {
			assert.Empty(t, refused, name)
		}
		assert.Contains(t, refused, c.refused, name)
		if c.err == "" {
			require.ErrorIs(t, err, io.EOF, name)
			continue
		}
		require.ErrorContains(t, err, c.err, name)
	}
}

// TestDamagedBAM: a flipped bit is found by its block's checksum or where it leads to
// nonsense, and no read is another than it was.
func TestDamagedBAM(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "dorado.bam"))
	require.NoError(t, err)
	want := open(t, "dorado.bam")
	path := filepath.Join(t.TempDir(), "x.bam")
	for at := 40; at < len(whole)-40; at += 97 {
		bad := bytes.Clone(whole)
		bad[at] ^= 4
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		g, err := OpenGrowing(path, int64(len(bad)), cram.Options{})
		require.NoError(t, err)
		var got []*Read
		for err == nil {
			var r *Read
			if r, err = g.Next(); err == nil {
				got = append(got, r)
			}
		}
		require.LessOrEqual(t, len(got), len(want))
		for i := range got {
			require.Equal(t, want[i], got[i])
		}
		if errors.Is(err, io.EOF) { // what a block's header says of times and systems changes nothing
			require.Len(t, got, len(want))
		}
		require.NoError(t, g.Close())
	}
}

func FuzzReader(f *testing.F) {
	for _, name := range []string{"dorado.sam", "dorado.bam", "dorado.cram"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			if b, err = io.ReadAll(z); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b[:min(len(b), 3000)])
	}
	f.Add([]byte("@a runid=x ch=5\nACGT\n+\n!!!!\n@b\tqs:f:3\nA\n+\n!\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), cram.Options{})
		for n := 0; err == nil; n++ {
			var read *Read
			read, err = r.Next()
			if _, record := errors.AsType[*RecordError](err); record {
				err = nil
				continue
			}
			if err == nil && (read.Qualities != nil && len(read.Qualities) != len(read.Sequence) || read.Dwells != nil && len(read.Dwells) != len(read.Sequence)) {
				t.Fatalf("read %q has %d bases, %d qualities and %d dwells", read.ID, len(read.Sequence), len(read.Qualities), len(read.Dwells))
			}
			if n > len(b) {
				t.Fatal("more records than bytes")
			}
		}
	})
}

// cramReads are the primary reads of a CRAM file of aligned reads, and what it is read with.
func cramReads(t *testing.T) (file []byte, want []string, o cram.Options) {
	t.Helper()
	dir := filepath.Join("..", "..", "align", "hts", "cram", "testdata")
	file, err := os.ReadFile(filepath.Join(dir, "3.0.cram"))
	require.NoError(t, err)
	text, err := os.Open(filepath.Join(dir, "small.sam"))
	require.NoError(t, err)
	defer text.Close()
	r, err := NewReader(text, cram.Options{})
	require.NoError(t, err)
	for {
		read, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		want = append(want, read.ID+" "+string(read.Sequence)+" "+read.Run+" "+read.Of)
	}
	g, err := genome.Load(filepath.Join(dir, "small.fa"))
	require.NoError(t, err)
	return file, want, cram.Options{Reference: g.Bases}
}

// TestCRAM: aligned reads in CRAM are what they are in SAM, by the reference that they are aligned to; a
// file that is still to be copied into the space that it has is waited for; and one without its end, or
// without its reference, is reported.
func TestCRAM(t *testing.T) {
	file, want, o := cramReads(t)
	all := func(next func() (*Read, error)) (got []string, err error) {
		for {
			read, err := next()
			if err != nil {
				return got, err
			}
			got = append(got, read.ID+" "+string(read.Sequence)+" "+read.Run+" "+read.Of)
		}
	}
	r, err := NewReader(bytes.NewReader(file), o)
	require.NoError(t, err)
	got, err := all(r.Next)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, want, got)
	require.True(t, Recognises(bytes.NewReader(file)))
	require.False(t, Unaligned(file))
	require.Equal(t, []string{"one", "two"}, Samples(file))

	unaligned, err := os.ReadFile(filepath.Join("testdata", "dorado.cram"))
	require.NoError(t, err)
	require.True(t, Recognises(bytes.NewReader(unaligned)))

	path := filepath.Join(t.TempDir(), "x.cram")
	reserved := make([]byte, len(file))
	for _, n := range []int{0, 2048, 4096, len(file)} {
		copy(reserved, file[:n])
		require.NoError(t, os.WriteFile(path, reserved, 0o600))
		g, err := OpenGrowing(path, int64(len(reserved)), o)
		if err == nil {
			got, err = all(g.Next)
			require.NoError(t, g.Close())
		}
		if n == len(file) {
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, want, got)
		} else {
			require.ErrorIs(t, err, ErrUnfinished, "%d bytes", n)
		}
	}
	require.NoError(t, os.WriteFile(path, file[:len(file)-38], 0o600))
	g, err := OpenGrowing(path, int64(len(file)-38), o)
	require.NoError(t, err)
	got, err = all(g.Next)
	require.ErrorIs(t, err, ErrUnfinished, "the end of the file is missing")
	require.Equal(t, want, got)
	require.NoError(t, g.Close())
	r, err = NewReader(bytes.NewReader(file[:len(file)-38]), o)
	require.NoError(t, err)
	_, err = all(r.Next)
	require.ErrorIs(t, err, cram.ErrCut)

	r, err = NewReader(bytes.NewReader(file), cram.Options{})
	require.NoError(t, err)
	_, err = all(r.Next)
	require.EqualError(t, err, "the reads of this CRAM file are kept by their differences to c2: name the FASTA that they are aligned to (--ref)")
}

// manyBases are reads in SAM, and their ids and bases.
func manyBases(count, length int) (sam string, want []string) {
	rng := rand.New(rand.NewPCG(2, 9))
	var b strings.Builder
	b.WriteString("@HD\tVN:1.6\n")
	for i := range count {
		seq := make([]byte, length)
		for j := range seq {
			seq[j] = "ACGT"[rng.IntN(4)]
		}
		fmt.Fprintf(&b, "r%d\t4\t*\t0\t0\t*\t*\t0\t0\t%s\t%s\n", i, seq, strings.Repeat("I", length))
		want = append(want, fmt.Sprintf("r%d %s", i, seq))
	}
	return b.String(), want
}

// TestGrowingArchive: of a container of millions of bases, as an archive has them, a piece is decoded at a time, and
// a file that rests within one goes on where it was. A container that isn't there to its end isn't read.
func TestGrowingArchive(t *testing.T) {
	const length = 10_000
	sam, want := manyBases(600, length)
	file := writeCRAM(t, "3.0,archive", sam)
	path := filepath.Join(t.TempDir(), "x.cram")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	g, err := OpenGrowing(path, int64(len(file))-100, cram.Options{})
	require.NoError(t, err)
	_, err = g.Next()
	require.ErrorIs(t, err, ErrUnfinished)
	require.Less(t, cap(g.source.(*growingContainers).part), len(file)/2)
	require.False(t, g.Holding())
	g.Extend(int64(len(file)))
	var got []string
	for {
		r, err := g.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Less(t, cap(g.buf), len(want)*length/2, "less than half of the container")
		if got = append(got, r.ID+" "+string(r.Sequence)); len(got) < 400 {
			require.True(t, g.Holding(), "read %d", len(got))
		}
		if len(got)%100 == 0 {
			g.Rest()
		}
	}
	require.Equal(t, want, got)
	require.False(t, g.Holding())
	require.NoError(t, g.Close())
}

// writeCRAM has samtools write SAM as CRAM of a version.
func writeCRAM(t *testing.T, version, sam string) []byte {
	t.Helper()
	path, err := exec.LookPath("samtools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err, "CI needs samtools")
		}
		t.Skip("samtools is not installed")
	}
	cmd := exec.CommandContext(t.Context(), path, "view", "--no-PG", "-O", "cram,version="+version, "-")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(sam), &said
	out, err := cmd.Output()
	require.NoError(t, err, "samtools: %s", said.String())
	return out
}

// TestCRAMZeros: zeros that are CRAM's own, behind a header and at the end of a container without a
// checksum, are not taken for space that is still to be written; space within a header is.
func TestCRAMZeros(t *testing.T) {
	long := "@HD\tVN:1.6\n"
	rng := rand.New(rand.NewPCG(5, 8))
	for len(long) < 30_000 {
		letters := make([]byte, 200)
		for i := range letters {
			letters[i] = byte('0' + rng.IntN(75)) // so that compressing it leaves most of it
		}
		long += "@CO\t" + string(letters) + "\n"
	}
	long += "@RG\tID:" + testRun + "_" + testModel + "\tSM:plate7\n"
	const (
		bare  = "a\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\n"
		zeros = "a\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\tzz:B:I,0,0,0,0\n"
		group = "a\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\tRG:Z:" + testRun + "_" + testModel + "\n"
	)
	type shape struct {
		header, record string
		want           []Read // ID and Sample are compared
	}
	read := []Read{{ID: "a"}}
	shapes := map[string]shape{
		"short header":            {"@HD\tVN:1.6\n", bare, read},
		"header of 8000 bytes":    {"@HD\tVN:1.6\n@CO\t" + strings.Repeat("n", 8000) + "\n", bare, read},
		"no header":               {"", bare, read},
		"no reads":                {"@HD\tVN:1.6\n", "", nil},
		"a tag of zeros":          {"@HD\tVN:1.6\n", zeros, read},
		"long header":             {long, group, []Read{{ID: "a", Sample: "plate7"}}},
		"long header, no reads":   {long, "", nil},
		"long header, many zeros": {long, zeros, read},
	}
	for _, version := range []string{"2.0", "2.1", "3.0", "3.1"} {
		for name, c := range shapes {
			t.Run(version+", "+name, func(t *testing.T) {
				file := writeCRAM(t, version, c.header+c.record)
				head, err := cram.NewDecoder(cram.Options{}).Size(file)
				require.NoError(t, err)
				path := filepath.Join(t.TempDir(), "x.cram")
				reserved := make([]byte, len(file))
				if c.header == long {
					copy(reserved, file[:head/2])
				}
				require.NoError(t, os.WriteFile(path, reserved, 0o600))
				g, err := OpenGrowing(path, int64(len(file)), cram.Options{})
				if c.header == long {
					require.NoError(t, err)
					_, err = g.Next()
				}
				require.ErrorIs(t, err, ErrUnfinished, "room for what is to come")
				if g != nil {
					require.NoError(t, g.Close())
				}
				require.NoError(t, os.WriteFile(path, file, 0o600))
				g, err = OpenGrowing(path, int64(len(file)), cram.Options{})
				require.NoError(t, err)
				for _, want := range c.want {
					got, err := g.Next()
					require.NoError(t, err)
					require.Equal(t, []string{want.ID, want.Sample, "ACGT"}, []string{got.ID, got.Sample, string(got.Sequence)})
				}
				_, err = g.Next()
				require.ErrorIs(t, err, io.EOF, "the file is there to its end")
				require.NoError(t, g.Close())
			})
		}
	}
}
