package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An output may have the name of the input, and what has the name stays when a command fails.
func TestOutputInPlace(t *testing.T) {
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	ref, genes := filepath.Join(lambda, "reference.fa"), filepath.Join(lambda, "genes.gff3")
	dir := t.TempDir()
	calls, reads := filepath.Join(dir, "calls.vcf"), filepath.Join(dir, "reads.fastq")
	truth, err := os.ReadFile(filepath.Join(lambda, "truth.vcf"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(calls, truth, 0o600))
	_, err = poreWith(t, nil, "simulate", "reads", "--ref", ref, "--profile", "r10.4.1-2pct", "--depth", "1", "--length", "2000", "-o", reads)
	require.NoError(t, err)

	for path, args := range map[string][]string{
		calls: {"annotate", "--ref", ref, "--gff", genes},
		reads: {"align", "--ref", ref},
	} {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		want := filepath.Join(dir, "beside")
		_, err = poreWith(t, nil, append(args, "-o", want, path)...)
		require.NoError(t, err, args)
		broken := filepath.Join(dir, "broken")
		if path == calls {
			require.NoError(t, os.WriteFile(broken, append(slices.Clone(before), "no record\n"...), 0o600))
		} else {
			require.NoError(t, os.WriteFile(broken, before[:len(before)*3/4], 0o600))
		}
		_, err = poreWith(t, nil, append(args, "-o", path, broken)...)
		require.Error(t, err, args)
		same(t, path, before)
		_, err = poreWith(t, nil, append(args, "-o", path, path)...)
		require.NoError(t, err, args)
		wanted, err := os.ReadFile(want)
		require.NoError(t, err)
		same(t, path, wanted)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	assert.Empty(t, hidden)
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// atEnd is an input at whose end something happens.
type atEnd struct {
	io.Reader
	act func()
}

func (r atEnd) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.act()
	}
	return n, err
}

// An output that somebody removes while it is written is no success.
func TestOutputIsRemoved(t *testing.T) {
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	truth, err := os.ReadFile(filepath.Join(lambda, "truth.vcf"))
	require.NoError(t, err)
	for name, args := range map[string][]string{
		"a.vcf":    {"annotate", "--gff", filepath.Join(lambda, "genes.gff3")},
		"a.vcf.gz": {"annotate", "--gff", filepath.Join(lambda, "genes.gff3")},
		"a.bam":    {"align"},
	} {
		text := string(truth)
		if args[0] == "align" {
			text = oneRead
		}
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.Mkdir(out, 0o755))
		in := atEnd{strings.NewReader(text), func() { assert.NoError(t, os.RemoveAll(out)) }}
		_, err := poreWith(t, in, append(args, "--ref", filepath.Join(lambda, "reference.fa"), "-o", filepath.Join(out, name), "-")...)
		require.EqualError(t, err, "writing "+filepath.Join(out, name)+": somebody has removed it, or its folder, while it was written: no such file or directory")
	}
}
