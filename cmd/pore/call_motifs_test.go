package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/variant"
)

// The motifs that the variant caller's guard is given are those of the called sample's reads.
func TestModifiedMotifsOfASample(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 1))
	seq := make([]byte, 20_000)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
	}
	var sam strings.Builder
	fmt.Fprintf(&sam, "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c\tLN:%d\n@RG\tID:a\tSM:native\n@RG\tID:b\tSM:amplified\n", len(seq))
	for start := 0; start+2000 <= len(seq); start += 500 {
		for i, group := range []string{"a", "b", "a", "b"} {
			bases, flag := string(seq[start:start+2000]), 0
			read := []byte(bases)
			if i > 1 {
				flag = 16
				genome.ReverseComplement(read)
			}
			tags := modifiedAt(read, "GATC", 1, group == "a")
			fmt.Fprintf(&sam, "%d%s\t%d\tc\t%d\t60\t2000M\t*\t0\t0\t%s\t*\tRG:Z:%s\t%s\n", start, group, flag, start+1, bases, group, tags)
		}
	}
	path := filepath.Join(t.TempDir(), "reads.sam")
	require.NoError(t, os.WriteFile(path, []byte(sam.String()), 0o600))
	g, err := genome.Read(strings.NewReader(">c\n" + string(seq) + "\n"))
	require.NoError(t, err)
	for sample, want := range map[string][]string{"native": {"GATC"}, "amplified": nil} {
		got, err := modifiedMotifs(t.Context(), path, sample, g, 2, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Equal(t, want, got, sample)
	}
	var log strings.Builder
	got, err := modifiedMotifs(t.Context(), path, "nobody", g, 2, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Contains(t, log.String(), "no read says anything of modified bases")
}

// TestKnownMotifs: calling gets no more motifs than it takes, and none that it refuses: those with the most evidence, and each once.
func TestKnownMotifs(t *testing.T) {
	var found []motif.Motif
	add := func(letters string, evidence float64) {
		found = append(found, motif.Motif{Letters: letters, Evidence: evidence})
	}
	for i := range 70 {
		letters := "GA"
		for n := i; len(letters) < 6; n /= 4 {
			letters += "ACGT"[n%4 : n%4+1]
		}
		add(letters, float64((i*37)%70))
		add(letters, 0) // of another modification
	}
	add("CHH", 1000)
	var log strings.Builder
	got := knownMotifs(found, slog.New(slog.NewTextHandler(&log, nil)))
	require.Len(t, got, variant.MaxKnownMotifs)
	require.True(t, slices.IsSorted(got))
	for _, m := range found {
		if m.Evidence > 0 && m.Letters != "CHH" {
			require.Equal(t, m.Evidence >= 6, slices.Contains(got, m.Letters), "%v", m)
		}
	}
	require.Contains(t, log.String(), "motifs=CHH")
	require.Contains(t, log.String(), "found=70 used=64")
	require.NoError(t, variant.Config{Sample: "s", ModifiedMotifs: got}.Validate())
	log.Reset()
	require.Equal(t, []string{"CCWGG", "GATC"}, knownMotifs([]motif.Motif{{Letters: "GATC"}, {Letters: "CCWGG"}}, slog.New(slog.NewTextHandler(&log, nil))))
	require.Empty(t, log.String())
}

// modifiedAt are tags that say of each A of a read whether it is modified: that of a motif is, or none.
func modifiedAt(read []byte, motif string, place int, is bool) string {
	mm, ml, skipped := "MM:Z:A+a.", "ML:B:C", 0
	for i, base := range read {
		if base != 'A' {
			continue
		}
		if start := i - place; is && start >= 0 && strings.HasPrefix(string(read[start:]), motif) {
			mm, ml, skipped = fmt.Sprintf("%s,%d", mm, skipped), ml+",250", 0
		} else {
			skipped++
		}
	}
	return mm + ";\t" + ml
}

func TestFindModifiedMotifsRefuses(t *testing.T) {
	for _, tt := range []struct {
		cfg  callConfig
		path string
		want string
	}{
		{callConfig{reference: "r.fa", findMotifs: true}, "-", "--find-modified-motifs reads the alignments twice"},
	} {
		err := call(t.Context(), tt.cfg, tt.path, strings.NewReader(""), new(strings.Builder))
		assert.ErrorContains(t, err, tt.want)
	}
}
