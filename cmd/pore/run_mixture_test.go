package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/watchlist"
)

// TestPanelOfAMixture has a base that a fifth of the molecules replace, and one that none does. A panel for that share finds the one and excludes the other; of a
// caller that takes samples for haploid it is refused.
func TestPanelOfAMixture(t *testing.T) {
	const at, other = 6000, 3000 // 0-based
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	g, err := genome.Load(randomFASTA(t, 12_000))
	require.NoError(t, err)
	seq := g.Contigs[0].Seq
	replaced := func(base byte) byte { return "CATG"[strings.IndexByte("ACGT", base)] } // transversions
	changed := append([]byte{}, seq...)
	changed[at] = replaced(seq[at])
	ref, mutant := file("ref.fa", ">chrA\n"+string(seq)+"\n"), file("mutant.fa", ">chrA\n"+string(changed)+"\n")
	var reads strings.Builder
	for i, of := range []struct{ ref, depth string }{{ref, "160"}, {mutant, "40"}} {
		text, err := poreWith(t, nil, "simulate", "reads", "--ref", of.ref, "--profile", "r10.4.1-2pct", "--depth", of.depth, "--length", "3000", "--seed", fmt.Sprint(i+1))
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			reads.WriteString(strings.Replace(line, "@r0", fmt.Sprintf("@of%d_r0", i), 1))
		}
	}
	rule := func(id string, at int) string {
		return fmt.Sprintf("- {id: %s, match: {vcf: \"chrA:%d:%c:%c\"}}\n", id, at+1, seq[at], replaced(seq[at]))
	}
	panel := file("panel.yaml", "panel: p\nversion: 1\nthresholds: {allele_fraction: 0.2, min_fraction: 0.1, error_rate: 0.02, alpha: 0.001, beta: 0.02}\nrules:\n"+rule("fifth", at)+rule("none", other))
	genes := file("genes.gff3", "##gff-version 3\nchrA\t.\tgene\t1\t9\t.\t+\t.\tID=g\n")
	args := []string{"run", "--ref", ref, "--gff", genes, "--panel", panel, "--run", "r", "--sample", "s", "--out", filepath.Join(dir, "out"), file("reads.fastq", reads.String())}
	_, err = poreWith(t, nil, args...)
	require.ErrorContains(t, err, `rule "fifth" asks for an allele_fraction below 0.4, which is found in mixtures only: give --ploidy mixture`)
	bed := file("ploidy.bed", "chrA\t0\t4000\tmixture\n") // with the one rule's place alone
	_, err = poreWith(t, nil, append(slices.Clone(args), "--ploidy-bed", bed)...)
	require.ErrorContains(t, err, `rule "fifth" asks for an allele_fraction below 0.4, which is found in mixtures only, and chrA:6001 is of ploidy 1: give --ploidy mixture`)
	_, err = poreWith(t, nil, append(args, "--ploidy", "mixture")...)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "out", "alerts.json"))
	require.NoError(t, err)
	var alerts []*watchlist.Alert
	require.NoError(t, json.Unmarshal(text, &alerts))
	states := make(map[string]watchlist.State)
	for _, a := range alerts {
		states[a.Rule] = a.State
		require.True(t, a.Final)
	}
	require.Equal(t, map[string]watchlist.State{"fifth": watchlist.Detected, "none": watchlist.Negative}, states, string(text))
}
