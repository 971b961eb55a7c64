package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
)

var testRun = &signal.Run{
	ID: "f08e85a1", SampleRate: 4000, StartTime: time.Date(2018, 3, 1, 12, 30, 0, 5e8, time.UTC),
	SampleID: "lambda\tphage", FlowCellID: "FAH00001", SequencerPosition: "MN17279",
}

func testHeader() Header {
	model := &basecall.Model{}
	model.Manifest.Name, model.Manifest.Version = "r9.4-fast", "1"
	model.Manifest.Normalisation.Method = "med_mad"
	return Header{
		Model:      model,
		Runs:       []*signal.Run{testRun, testRun},
		Program:    Program{Name: "pore", Version: "0.1.0", CommandLine: "pore basecall\treads.pod5"},
		Device:     "cpu",
		Aligner:    &Program{Name: "minimap2", Version: "2.31"},
		References: []Reference{{"J02459.1", 48502}, {"other", 100}},
	}
}

// testRecord returns a read of ten bases over 24 frames.
func testRecord() Record {
	moves := make([]byte, 24)
	for i := range 10 {
		moves[2*i+1] = 1
	}
	return Record{
		Read: &signal.Read{
			ID: "0005c3b5-4d4c-4f5e-a9a0-000000000001", Run: testRun, Channel: 17, Well: 2, Number: 31,
			StartSample: 8000, NumSamples: 73, Calibration: signal.Calibration{Offset: 10, Scale: 0.2},
			EndReason: signal.EndSignalPositive, PoreType: "not_set",
		},
		Called: basecall.Called{
			Sequence: []byte("AACCGGTTAC"), Qualities: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 50},
			Moves: moves, Stride: 3, NumSamples: 73, MeanQuality: 5.25, Shift: 490, Scale: 80,
		},
		File: "reads.pod5",
	}
}

// alignedRecord has a reverse primary alignment and a supplementary one.
func alignedRecord() Record {
	r := testRecord()
	r.Read.ID = "0005c3b5-4d4c-4f5e-a9a0-000000000002"
	r.Alignments = []align.Alignment{
		{
			Contig: "J02459.1", Start: 1000, End: 1006, Reverse: true, QueryStart: 1, QueryEnd: 7, MappingQuality: 60,
			Ops:   []align.Op{{Kind: align.Match, Len: 2}, {Kind: align.Insertion, Len: 1}, {Kind: align.Mismatch, Len: 1}, {Kind: align.Deletion, Len: 1}, {Kind: align.Match, Len: 2}},
			Score: 42, NM: 3, Divergence: 0.5,
		},
		{
			Contig: "other", Start: 0, End: 3, QueryStart: 7, QueryEnd: 10, Supplementary: true,
			Ops: []align.Op{{Kind: align.Match, Len: 3}},
		},
	}
	return r
}

// TestWritersLeaveReads: a read is the same after it was written, whatever its strand and the format.
func TestWritersLeaveReads(t *testing.T) {
	forward := alignedRecord()
	forward.Alignments[0].Reverse, forward.Alignments[1].Reverse = false, true
	for _, format := range []Format{FASTQ, SAM, BAM} {
		for i, r := range []Record{testRecord(), alignedRecord(), forward, emptyRecord()} {
			// Not by value: a record has slices and pointers.
			before := func() string { return fmt.Sprintf("%#v %#v", r, *r.Read) }
			want := before()
			write(t, format, r)
			require.Equal(t, want, before(), "format %d, record %d", format, i)
		}
	}
}

// emptyRecord is a read in which nothing was called.
func emptyRecord() Record {
	r := testRecord()
	r.Read.ID = "0005c3b5-4d4c-4f5e-a9a0-000000000003"
	r.Called = basecall.Called{Stride: 3, NumSamples: 73, Moves: make([]byte, 24)}
	return r
}

func write(t *testing.T, format Format, records ...Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, format, testHeader())
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

const wantSAM = `@HD	VN:1.6	SO:unsorted
@SQ	SN:J02459.1	LN:48502
@SQ	SN:other	LN:100
@RG	ID:f08e85a1_r9.4-fast	DS:basecall_model=r9.4-fast runid=f08e85a1 model_version=1+388310b3e8e7	DT:2018-03-01T12:30:00.500+0000	LB:lambda phage	PL:ONT	PU:FAH00001	SM:lambda phage	PM:MN17279
@PG	ID:basecaller	PN:pore	CL:pore basecall reads.pod5	VN:0.1.0	DS:device=cpu
@PG	ID:aligner	PN:minimap2	PP:basecaller	VN:2.31
0005c3b5-4d4c-4f5e-a9a0-000000000001	4	*	0	0	*	*	0	0	AACCGGTTAC	"#$%&'()*S	RG:Z:f08e85a1_r9.4-fast	qs:f:5.25	du:f:0.01825	ns:i:73	ts:i:0	mx:i:2	ch:i:17	st:Z:2018-03-01T12:30:02.500Z	rn:i:31	fn:Z:reads.pod5	sm:f:100	sd:f:16	sv:Z:med_mad	dx:i:0	er:Z:signal_positive	mv:B:c,3,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,0,0,0
0005c3b5-4d4c-4f5e-a9a0-000000000002	16	J02459.1	1001	60	3S2=1I1X1D2=1S	*	0	0	GTAACCGGTT	S*)('&%$#"	NM:i:3	AS:i:42	de:f:0.5	SA:Z:other,1,+,7S3=,0,0;	RG:Z:f08e85a1_r9.4-fast	qs:f:5.25	du:f:0.01825	ns:i:73	ts:i:0	mx:i:2	ch:i:17	st:Z:2018-03-01T12:30:02.500Z	rn:i:31	fn:Z:reads.pod5	sm:f:100	sd:f:16	sv:Z:med_mad	dx:i:0	er:Z:signal_positive	mv:B:c,3,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,0,0,0
0005c3b5-4d4c-4f5e-a9a0-000000000002	2048	other	1	0	7S3=	*	0	0	AACCGGTTAC	"#$%&'()*S	NM:i:0	AS:i:0	de:f:0	SA:Z:J02459.1,1001,-,3S2=1I1X1D2=1S,60,3;	RG:Z:f08e85a1_r9.4-fast
0005c3b5-4d4c-4f5e-a9a0-000000000003	4	*	0	0	*	*	0	0	*	*	RG:Z:f08e85a1_r9.4-fast	qs:f:0	du:f:0.01825	ns:i:73	ts:i:0	mx:i:2	ch:i:17	st:Z:2018-03-01T12:30:02.500Z	rn:i:31	fn:Z:reads.pod5	sm:f:2	sd:f:0	sv:Z:med_mad	dx:i:0	er:Z:signal_positive	mv:B:c,3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
`

func TestSAM(t *testing.T) {
	assert.Equal(t, wantSAM, string(write(t, SAM, testRecord(), alignedRecord(), emptyRecord())))
}

func TestFASTQ(t *testing.T) {
	assert.Equal(t, "@0005c3b5-4d4c-4f5e-a9a0-000000000001\tRG:Z:f08e85a1_r9.4-fast\tqs:f:5.250\tch:i:17\trn:i:31\tst:Z:2018-03-01T12:30:02.500Z\tDS:Z:model_version=1+388310b3e8e7\n"+
		"AACCGGTTAC\n+\n\"#$%&'()*S\n", string(write(t, FASTQ, testRecord(), emptyRecord())))
}

// samtools runs samtools, and skips the test where it isn't installed.
func samtools(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("samtools"); err != nil {
		t.Skip("needs samtools")
	}
	cmd := exec.CommandContext(t.Context(), "samtools", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, complaints.String())
	for line := range strings.Lines(complaints.String()) {
		require.True(t, strings.HasPrefix(line, "[M::"), "samtools says %s", line) // M is a message, not a warning
	}
	return string(out)
}

func TestSamtoolsReadsBoth(t *testing.T) {
	dir := t.TempDir()
	records := []Record{testRecord(), alignedRecord(), emptyRecord()}
	bamPath, samPath := filepath.Join(dir, "x.bam"), filepath.Join(dir, "x.sam")
	require.NoError(t, os.WriteFile(bamPath, write(t, BAM, records...), 0o600))
	require.NoError(t, os.WriteFile(samPath, write(t, SAM, records...), 0o600))
	samtools(t, "quickcheck", "-u", bamPath, samPath)
	fromBAM := samtools(t, "view", "--no-PG", "-h", bamPath)
	assert.Equal(t, fromBAM, samtools(t, "view", "--no-PG", "-h", samPath))
	assert.Equal(t, wantSAM, fromBAM)
	// What was read back in the direction of sequencing is what was called.
	fastq := samtools(t, "fastq", "-n", bamPath)
	assert.Contains(t, fastq, "@0005c3b5-4d4c-4f5e-a9a0-000000000002\nAACCGGTTAC\n+\n\"#$%&'()*S\n")
}

func TestSamtoolsReadsVeryLongCigars(t *testing.T) {
	r := alignedRecord()
	n := 2*(1<<16) + 10
	r.Called.Sequence = bytes.Repeat([]byte("AC"), n/2)
	r.Called.Qualities = bytes.Repeat([]byte{10}, n)
	a := align.Alignment{Contig: "J02459.1", Start: 10, QueryEnd: n}
	for range n / 2 {
		a.Ops = append(a.Ops, align.Op{Kind: align.Match, Len: 1}, align.Op{Kind: align.Insertion, Len: 1})
	}
	a.End = a.Start + n/2
	r.Alignments = []align.Alignment{a}
	header := testHeader()
	header.References[0].Length = 1_000_000
	var out bytes.Buffer
	w, err := NewWriter(&out, BAM, header)
	require.NoError(t, err)
	require.NoError(t, w.Write(r))
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "long.bam")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	samtools(t, "quickcheck", path)
	fields := strings.Split(samtools(t, "view", path), "\t")
	assert.Equal(t, strings.Repeat("1=1I", n/2), fields[5])
	assert.NotContains(t, strings.Join(fields[11:], "\t"), "CG:B:I")
}

func TestBAMReadsBack(t *testing.T) {
	reader, err := bam.NewReader(bytes.NewReader(write(t, BAM, testRecord(), alignedRecord())), 1)
	require.NoError(t, err)
	defer reader.Close()
	first, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, sam.Unmapped, first.Flags)
	assert.Equal(t, "AACCGGTTAC", string(first.Seq.Expand()))
	second, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, 1000, second.Pos)
	assert.True(t, sam.IsValidRecord(second))
}

func TestWriteRefuses(t *testing.T) {
	change := func(f func(*Record)) Record {
		r := alignedRecord()
		f(&r)
		return r
	}
	tests := []struct {
		name   string
		record Record
		want   string
	}{
		{"unknown run", change(func(r *Record) { r.Read.Run = &signal.Run{ID: "x"} }), "its read group x_r9.4-fast is not in the header"},
		{"unknown reference", change(func(r *Record) { r.Alignments[1].Contig = "chrX" }), "its reference chrX is not in the header"},
		{"alignment of another read", change(func(r *Record) { r.Alignments[0].QueryEnd = 9 }), "its alignment covers 8 bases of 10"},
		{"name", change(func(r *Record) { r.Read.ID = strings.Repeat("x", 255) }), "name of 255 bytes"},
		{"no name", change(func(r *Record) { r.Read.ID = "" }), "name of 0 bytes"},
		{"stride", change(func(r *Record) { r.Called.Stride = 500 }), "stride of 500"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, err := NewWriter(&bytes.Buffer{}, SAM, testHeader())
			require.NoError(t, err)
			require.ErrorContains(t, w.Write(test.record), test.want)
		})
	}
	header := testHeader()
	header.References = append(header.References, header.References[0])
	_, err := NewWriter(&bytes.Buffer{}, SAM, header)
	require.ErrorContains(t, err, "reference J02459.1")
}

var errFull = errors.New("disk is full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorsSurface(t *testing.T) {
	for _, format := range []Format{FASTQ, SAM, BAM} {
		w, err := NewWriter(fullDisk{}, format, testHeader())
		if err == nil {
			err = errors.Join(w.Write(testRecord()), w.Close())
		}
		require.ErrorIs(t, err, errFull)
	}
}

func TestParseFormat(t *testing.T) {
	for name, want := range map[string]Format{"fastq": FASTQ, "sam": SAM, "bam": BAM} {
		have, err := ParseFormat(name)
		require.NoError(t, err)
		assert.Equal(t, want, have)
	}
	_, err := ParseFormat("cram")
	require.ErrorContains(t, err, `format "cram" is none of fastq, sam, bam`)
}

// barcodedHeader is a header of runs with two barcodes, one of which has an alias.
func barcodedHeader() Header {
	h := testHeader()
	h.Barcodes = func(*signal.Run) []Barcode {
		return []Barcode{{Name: "KIT_barcode01", Sample: "barcode01"}, {Name: "patient-2", Sample: "patient-2", Alias: "patient-2"}}
	}
	return h
}

// partRecord is a part of a read, with a barcode.
func partRecord() Record {
	r := testRecord()
	r.Read.ID = "0005c3b5-4d4c-5f5e-a9a0-000000000004"
	r.Parent, r.ParentStart = "0005c3b5-4d4c-4f5e-a9a0-000000000001", 1200
	r.Barcode = &Barcode{Name: "patient-2", Sample: "patient-2", Alias: "patient-2", Info: []float32{0.9, 3, 70, 0.9, -1, -1, -1}}
	return r
}

// TestBarcodes: read groups by barcode, with sample and alias, and the tags of a read's
// barcode and of the read that it is a part of.
func TestBarcodes(t *testing.T) {
	without := testRecord()
	without.Barcode = &Barcode{Name: Unclassified}
	written := func(format Format) string {
		var out bytes.Buffer
		w, err := NewWriter(&out, format, barcodedHeader())
		require.NoError(t, err)
		require.NoError(t, w.Write(partRecord()))
		require.NoError(t, w.Write(without))
		require.NoError(t, w.Close())
		return out.String()
	}
	text := written(SAM)
	var groups []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "@RG") {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			groups = append(groups, fields[1]+" "+strings.Join(fields[len(fields)-2:], " "))
		}
	}
	require.Len(t, groups, 3, "one for each barcode of the run, which has two files")
	require.Contains(t, groups[0], "ID:f08e85a1_r9.4-fast ")
	require.Contains(t, text, "\tLB:lambda phage\tPL:ONT\tPU:FAH00001\tSM:barcode01\t")
	require.Contains(t, text, "\tSM:patient-2\t")
	require.Contains(t, text, "\tal:patient-2")
	require.Contains(t, text, "\tpi:Z:0005c3b5-4d4c-4f5e-a9a0-000000000001\tsp:i:1200\tBC:Z:patient-2\tbi:B:f,0.9,3,70,0.9,-1,-1,-1\t")
	require.Contains(t, text, "RG:Z:f08e85a1_r9.4-fast_patient-2\t")
	require.Contains(t, text, "RG:Z:f08e85a1_r9.4-fast\t")
	require.Contains(t, text, "\tBC:Z:unclassified\t")
	title, _, _ := strings.Cut(written(FASTQ), "\n")
	require.True(t, strings.HasSuffix(title, "\tpi:Z:0005c3b5-4d4c-4f5e-a9a0-000000000001\tsp:i:1200\tBC:Z:patient-2"), title)
	require.Contains(t, title, "\tRG:Z:f08e85a1_r9.4-fast_patient-2\t")

	w, err := NewWriter(new(bytes.Buffer), BAM, testHeader())
	require.NoError(t, err)
	require.ErrorContains(t, w.Write(partRecord()), "its read group f08e85a1_r9.4-fast_patient-2 is not in the header")
}

// TestNamesAreWordsOfDescriptions: a model's name with spaces in it is one word where readers take a space for its end.
func TestNamesAreWordsOfDescriptions(t *testing.T) {
	header := testHeader()
	model := *header.Model
	model.Manifest.Name = "our hac 2"
	header.Model = &model
	var out bytes.Buffer
	w, err := NewWriter(&out, SAM, header)
	require.NoError(t, err)
	require.NoError(t, w.Write(testRecord()))
	require.NoError(t, w.Close())
	require.Contains(t, out.String(), "\tDS:basecall_model=our_hac_2 runid=f08e85a1 ")
}
