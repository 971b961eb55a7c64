package fastq_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/fastq"
)

func all(in io.Reader) ([]*fastq.Read, error) {
	r, err := fastq.NewReader(in)
	if err != nil {
		return nil, err
	}
	var reads []*fastq.Read
	for {
		read, err := r.Next()
		if errors.Is(err, io.EOF) {
			return reads, nil
		}
		if err != nil {
			return reads, err
		}
		reads = append(reads, read)
	}
}

var cases = []struct {
	name, text string
	want       []fastq.Read
	err        string
}{
	{name: "empty"},
	{name: "two", text: "@a\nACGT\n+\n!!~I\n@b x y\nN\n+b\n#\n", want: []fastq.Read{
		{Name: "a", Seq: []byte("ACGT"), Qualities: []byte{0, 0, 93, 40}},
		{Name: "b", Description: "x y", Seq: []byte("N"), Qualities: []byte{2}},
	}},
	{name: "tags", text: "@a\tRG:Z:x\tqs:f:3.0\nA\n+\n!\n", want: []fastq.Read{{Name: "a", Description: "RG:Z:x\tqs:f:3.0", Seq: []byte("A"), Qualities: []byte{0}}}},
	{name: "no newline at the end", text: "@a\nA\n+\n@", want: []fastq.Read{{Name: "a", Seq: []byte("A"), Qualities: []byte{31}}}},
	{name: "Windows", text: "@a\r\nAc\r\n+\r\n!!\r\n", want: []fastq.Read{{Name: "a", Seq: []byte("Ac"), Qualities: []byte{0, 0}}}},
	{name: "a read without bases", text: "@a\n\n+\n\n@b\nA\n+\n!\n", want: []fastq.Read{{Name: "a", Seq: []byte{}, Qualities: []byte{}}, {Name: "b", Seq: []byte("A"), Qualities: []byte{0}}}},
	{name: "blank lines at the end", text: "@a\nA\n+\n!\n\n\n", want: []fastq.Read{{Name: "a", Seq: []byte("A"), Qualities: []byte{0}}}},
	{name: "FASTA", text: ">a\nACGT\n", err: "line 1: this is FASTA"},
	{name: "SAM", text: "read\t0\tchr\n", err: `line 1: a record begins with 'r', want '@'`},
	{name: "BAM", text: zipped("BAM\x01rest"), err: "line 1: this is BAM, not FASTQ"},
	{name: "no name", text: "@\nA\n+\n!\n", err: "line 1: a record without a name"},
	{name: "cut after the name", text: "@a\n", err: "line 1: the file ends within read a, before its sequence"},
	{name: "cut after the sequence", text: "@a\nACGT\n", err: "before its '+' line"},
	{name: "cut after the plus", text: "@a\nACGT\n+\n", err: "line 3: the file ends within read a, before its qualities"},
	{name: "cut qualities", text: "@a\nACGT\n+\n!!\n", err: "line 4: read a: 2 qualities for 4 bases"},
	{name: "sequence of two lines", text: "@a\nACGT\nACGT\n+\n!!!!!!!!\n", err: "line 3: read a: want '+'"},
	{name: "no sequence", text: "@a\nAC-T\n+\n!!!!\n", err: "line 2: read a: '-' is no letter"},
	{name: "no quality", text: "@a\nACG\n+\n! !\n", err: "line 4: read a: ' ' is no quality"},
	{name: "RNA", text: "@a\nAUGu\n+\n!!!!\n", want: []fastq.Read{{Name: "a", Seq: []byte("ATGt"), Qualities: []byte{0, 0, 0, 0}}}},
	{name: "blanks behind lines", text: "@a x \nACGT \t\n+ \n!!~I  \n", want: []fastq.Read{{Name: "a", Description: "x", Seq: []byte("ACGT"), Qualities: []byte{0, 0, 93, 40}}}},
	{name: "byte-order mark", text: "\xef\xbb\xbf@a\nA\n+\n!\n", want: []fastq.Read{{Name: "a", Seq: []byte("A"), Qualities: []byte{0}}}},
	{name: "blank line between", text: "@a\nA\n+\n!\n\n@b\nA\n+\n!\n", err: "line 6: a blank line stands before it"},
	{name: "cut gzip", text: zipped("@a\nACGT\n+\n!!!!\n")[:30], err: "unexpected EOF"},
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			inputs := []string{tc.text}
			if !strings.HasPrefix(tc.text, "\x1f\x8b") && tc.text != "" {
				half := len(tc.text) / 2
				inputs = append(inputs, zipped(tc.text), zipped(tc.text[:half])+zipped(tc.text[half:]))
			}
			for _, in := range inputs {
				reads, err := all(strings.NewReader(in))
				if tc.err != "" {
					require.ErrorContains(t, err, tc.err)
					require.NotContains(t, err.Error(), "\n")
					continue
				}
				require.NoError(t, err)
				require.Len(t, reads, len(tc.want))
				for i := range reads {
					require.Equal(t, tc.want[i], *reads[i])
				}
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, tc := range cases {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reads, err := all(bytes.NewReader(text))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
		// What was read, written again, is read as the same.
		var b bytes.Buffer
		for _, r := range reads {
			require.Len(t, r.Qualities, len(r.Seq))
			b.WriteString("@" + r.Name)
			if r.Description != "" {
				b.WriteString(" " + r.Description)
			}
			b.WriteString("\n" + string(r.Seq) + "\n+\n")
			for _, q := range r.Qualities {
				b.WriteByte(q + '!')
			}
			b.WriteByte('\n')
		}
		again, err := all(&b)
		require.NoError(t, err)
		require.Equal(t, len(reads), len(again))
		for i := range reads {
			require.Equal(t, reads[i], again[i])
		}
	})
}
