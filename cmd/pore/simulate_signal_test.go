package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// Simulated current is as hard to call as real current, and what was planted in it is
// found: our basecaller's identity on phage lambda is 91.2 %, on simulated lambda it is
// within two points of that. docs/simulator.md has the whole comparison.
func TestSimulatedSignalIsLikeReal(t *testing.T) {
	if testing.Short() {
		t.Skip("calls 1.6 million samples")
	}
	dir := t.TempDir()
	g, err := genome.Load("../../testdata/lambda/reference.fa")
	require.NoError(t, err)
	ref := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(ref, fmt.Appendf(nil, ">piece\n%s\n", g.Contigs[0].Seq[20_000:26_000]), 0o600))
	_, err = poreWith(t, nil, "simulate", "--ref", ref, "--variants", "snp=8,indel=0", "--depth", "25", "--length", "3000", "--length-spread", "0.3", "--seed", "3", "--out", dir)
	require.NoError(t, err)
	reads, err := poreWith(t, nil, "basecall", "--device", "cpu", filepath.Join(dir, "reads.pod5"))
	require.NoError(t, err)
	aligned, err := poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "--format", "sam", "-")
	require.NoError(t, err)
	r, err := sam.NewReader(strings.NewReader(aligned))
	require.NoError(t, err)
	sum, n := 0.0, 0.0
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if rec.Flags&(sam.Secondary|sam.Supplementary|sam.Unmapped) != 0 {
			continue
		}
		columns := 0
		for _, op := range rec.Cigar {
			if k := op.Type(); k == sam.CigarMatch || k == sam.CigarEqual || k == sam.CigarMismatch || k == sam.CigarInsertion || k == sam.CigarDeletion {
				columns += op.Len()
			}
		}
		nm, ok := rec.Tag([]byte("NM"))
		require.True(t, ok)
		var wrong int
		_, err = fmt.Sscan(fmt.Sprint(nm.Value()), &wrong)
		require.NoError(t, err)
		sum += 1 - float64(wrong)/float64(columns)
		n++
	}
	require.Greater(t, n, 30.0)
	require.InDelta(t, 91.2, 100*sum/n, 2)

	bam, err := poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "-")
	require.NoError(t, err)
	calls, err := poreWith(t, strings.NewReader(bam), "call", "--ref", ref, "-")
	require.NoError(t, err)
	called := make(map[string]bool)
	for line := range strings.Lines(calls) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 6 && f[6] == "PASS" {
			called[f[1]+f[3]+f[4]] = true
		}
	}
	truth, err := os.ReadFile(filepath.Join(dir, "truth.vcf"))
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(truth)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 6 && called[f[1]+f[3]+f[4]] {
			found++
		}
	}
	require.GreaterOrEqual(t, found, 6, "of 8 planted: %v", called)
	require.LessOrEqual(t, len(called), found+1)
}
