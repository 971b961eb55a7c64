package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase"
)

// manyRecords are reads enough for several blocks of BAM, each fifth with two alignments.
func manyRecords(n int) []Record {
	records := make([]Record, n)
	for i := range records {
		r := testRecord()
		if i%5 == 4 {
			r = alignedRecord()
		}
		read := *r.Read
		read.ID = fmt.Sprintf("%08x-4d4c-4f5e-a9a0-000000000001", i*2654435761)
		read.Number = uint32(i)
		r.Read = &read
		records[i] = r
	}
	return records
}

// TestResume: output that breaks off anywhere goes on to the bytes of the whole.
func TestResume(t *testing.T) {
	for name, format := range map[string]Format{"fastq": FASTQ, "sam": SAM, "bam": BAM} {
		t.Run(name, func(t *testing.T) {
			records := manyRecords(900)
			whole := write(t, format, records...)
			header := len(write(t, format))
			if format == BAM {
				header = bytes.Index(whole[18:], whole[:4]) + 18 // the header is a block of its own, or more
			}
			cuts := []int{len(whole), len(whole) - 1, len(whole) - 28, len(whole) - 29}
			for i := range 30 {
				cuts = append(cuts, header+i*(len(whole)-header)/30, header+i)
			}
			most := 0
			for _, cut := range cuts {
				var out bytes.Buffer
				w, err := NewWriter(&out, format, testHeader())
				require.NoError(t, err)
				taken, err := Resume(w, bytes.NewReader(whole[:cut]))
				require.NoError(t, err, "cut at %d of %d", cut, len(whole))
				most = max(most, len(taken.Reads))
				for _, r := range records {
					if !taken.Reads[r.Read.ID] {
						require.NoError(t, w.Write(r))
					}
				}
				require.NoError(t, w.Close())
				require.True(t, bytes.Equal(whole, out.Bytes()), "cut at %d of %d: other bytes", cut, len(whole))
			}
			assert.GreaterOrEqual(t, most, len(records)-1)
		})
	}
}

// TestResumeRefuses: what another model, run or reference made is not mixed in.
func TestResumeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format Format
		change func(*Header)
		says   string
	}{
		{"another model", FASTQ, func(h *Header) { h.Model.Manifest.Name = "other" }, "another model, run or kit"},
		{"another model", BAM, func(h *Header) { h.Model.Manifest.Name = "other" }, "another model, run or kit"},
		{"another version", FASTQ, func(h *Header) { h.Model.Manifest.Version = "2" }, "00000001: it was called by version 1+"},
		{"another version", BAM, func(h *Header) { h.Model.Manifest.Version = "2" }, "read group f08e85a1_r9.4-fast: it was called by version 1+"},
		{"other windows", FASTQ, func(h *Header) { h.Model.Manifest.Window.Overlap = 720 }, "of the model, now it is 1+"},
		{"other windows", SAM, func(h *Header) { h.Model.Manifest.Window.Overlap = 720 }, "which calls other bases: use the model as it was, or call all reads anew"},
		{"other weights", BAM, func(h *Header) { h.Model.Manifest.Network.SHA256 = "00" }, "of the model, now it is 1+"},
		{"another reference", SAM, func(h *Header) { h.References[0].Length++ }, "reference 1 is J02459.1 of 48502 bases, now it is J02459.1 of 48503"},
		{"no reference", BAM, func(h *Header) { h.References = nil }, "it has 2 references, the reads are aligned to 0 now"},
		{"modified bases", SAM, func(h *Header) { h.ModifiedModels = []string{"5mC"} }, "called by no model, now they are by 5mC: give --modified-bases as it was"},
		{"modified bases", BAM, func(h *Header) { h.ModifiedModels = []string{"5mC"} }, "called by no model, now they are by 5mC"},
		{"modified bases", FASTQ, func(h *Header) { h.ModifiedModels = []string{"5mC"} }, "called with no modified bases (tag MM), now reads are called with modified bases: give"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := testHeader()
			tt.change(&header)
			w, err := NewWriter(new(bytes.Buffer), tt.format, header)
			require.NoError(t, err)
			_, err = Resume(w, bytes.NewReader(write(t, tt.format, testRecord(), alignedRecord())))
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	w, err := NewWriter(new(bytes.Buffer), BAM, testHeader())
	require.NoError(t, err)
	_, err = Resume(w, bytes.NewReader([]byte("@read\nACGT\n")))
	require.ErrorContains(t, err, "reading its header")
}

// TestResumeNeedsTheVersion: what an earlier Porestream wrote says nothing of the model's version, and is not mixed in;
// words that say nothing of what is called don't count.
func TestResumeNeedsTheVersion(t *testing.T) {
	for _, format := range []Format{FASTQ, SAM} {
		text := string(write(t, format, testRecord(), alignedRecord()))
		header := testHeader()
		header.Model.Manifest.Description = "said otherwise"
		resume := func(text string) error {
			w, err := NewWriter(new(bytes.Buffer), format, header)
			require.NoError(t, err)
			_, err = Resume(w, strings.NewReader(text))
			return err
		}
		require.NoError(t, resume(text))
		build, err := testHeader().Model.Manifest.Build()
		require.NoError(t, err)
		require.Contains(t, text, "model_version="+build)
		err = resume(strings.ReplaceAll(text, "model_version="+build, "x=1"))
		require.ErrorContains(t, err, "no model_version=VERSION says which version of the model called it, now it is "+build+": call all reads anew")
	}
}

// TestResumeComparesModifiedBases: a broken output with modified bases goes on with the models that it had, and with no others.
func TestResumeComparesModifiedBases(t *testing.T) {
	records := manyRecords(2) // the last one is called again
	for i := range records {
		records[i].Modified = &modbase.Tags{Length: len(records[i].Called.Sequence)}
	}
	for _, tt := range []struct {
		format   Format
		had, has []string
		says     string
	}{
		{BAM, []string{"a model", "b"}, []string{"a model", "b"}, ""},
		{FASTQ, []string{"a"}, []string{"a"}, ""},
		{BAM, []string{"a", "b"}, []string{"a"}, "called by a,b, now they are by a:"},
		{BAM, []string{"a"}, []string{"a", "b"}, "called by a, now they are by a,b:"},
		{SAM, []string{"a"}, nil, "called by a, now they are by no model:"},
		{FASTQ, []string{"a"}, nil, "called with modified bases (tag MM), now reads are called with no modified bases:"},
	} {
		header := testHeader()
		header.ModifiedModels = tt.had
		var old bytes.Buffer
		w, err := NewWriter(&old, tt.format, header)
		require.NoError(t, err)
		for _, r := range records {
			require.NoError(t, w.Write(r))
		}
		require.NoError(t, w.Close())
		header.ModifiedModels = tt.has
		w, err = NewWriter(new(bytes.Buffer), tt.format, header)
		require.NoError(t, err)
		taken, err := Resume(w, &old)
		if tt.says != "" {
			require.ErrorContains(t, err, tt.says)
			continue
		}
		require.NoError(t, err)
		assert.Contains(t, taken.Reads, records[0].Read.ID)
	}
}

// TestResumeParts: the parts of a split read are taken over together or called again
// together, and the read is known by its own name.
func TestResumeParts(t *testing.T) {
	for name, format := range map[string]Format{"fastq": FASTQ, "sam": SAM, "bam": BAM} {
		t.Run(name, func(t *testing.T) {
			var records []Record
			for i, whole := range manyRecords(300) {
				barcode := &Barcode{Name: []string{"KIT_barcode01", Unclassified}[i%2]}
				parts := 1 + i%3
				for k := range parts {
					r := whole
					r.Barcode = barcode
					if read := *whole.Read; parts > 1 {
						r.Parent, r.ParentStart = read.ID, 100*k
						read.ID = fmt.Sprintf("%s-%d", read.ID, k)
						r.Read = &read
					}
					records = append(records, r)
				}
			}
			parent := func(r Record) string {
				if r.Parent != "" {
					return r.Parent
				}
				return r.Read.ID
			}
			all := func(w Writer, taken map[string]bool) {
				for _, r := range records {
					if !taken[parent(r)] {
						require.NoError(t, w.Write(r))
					}
				}
				require.NoError(t, w.Close())
			}
			var whole bytes.Buffer
			w, err := NewWriter(&whole, format, barcodedHeader())
			require.NoError(t, err)
			all(w, nil)
			for i := range 60 {
				cut := whole.Len() - i*i*whole.Len()/7200 - i
				var out bytes.Buffer
				w, err := NewWriter(&out, format, barcodedHeader())
				require.NoError(t, err)
				taken, err := Resume(w, bytes.NewReader(whole.Bytes()[:cut]))
				require.NoError(t, err)
				all(w, taken.Reads)
				require.True(t, bytes.Equal(whole.Bytes(), out.Bytes()), "cut at %d of %d: other bytes", cut, whole.Len())
			}
			// Without a kit, and with a kit what was called without, nothing is mixed.
			w, err = NewWriter(new(bytes.Buffer), format, testHeader())
			require.NoError(t, err)
			_, err = Resume(w, bytes.NewReader(whole.Bytes()))
			require.Error(t, err)
			w, err = NewWriter(new(bytes.Buffer), format, barcodedHeader())
			require.NoError(t, err)
			_, err = Resume(w, bytes.NewReader(write(t, format, manyRecords(3)...)))
			require.ErrorContains(t, err, "another kit")
		})
	}
}

// TestResumeRefusesOtherFormats: of a file in another format nothing can be taken over, and that isn't passed over in silence. Of
// one that was broken off within its first record nothing can be taken over either, which is all right.
func TestResumeRefusesOtherFormats(t *testing.T) {
	resume := func(format Format, old []byte) error {
		w, err := NewWriter(new(bytes.Buffer), format, testHeader())
		require.NoError(t, err)
		taken, err := Resume(w, bytes.NewReader(old))
		require.Empty(t, taken.Reads)
		return err
	}
	of := map[Format][]byte{}
	for _, format := range []Format{FASTQ, SAM, BAM} {
		of[format] = write(t, format, manyRecords(9)...)
	}
	require.ErrorContains(t, resume(FASTQ, of[BAM]), "it doesn't begin as FASTQ does")
	require.ErrorContains(t, resume(FASTQ, of[SAM]), "record 1 is no FASTQ: give the --format that it has")
	for _, format := range []Format{FASTQ, BAM} {
		require.Error(t, resume(SAM, of[format]))
	}
	for _, format := range []Format{FASTQ, SAM} {
		require.Error(t, resume(BAM, of[format]))
	}
	for cut := range bytes.Index(of[FASTQ], []byte("\n@")) {
		require.NoError(t, resume(FASTQ, of[FASTQ][:cut]), "cut at %d", cut)
	}
}
