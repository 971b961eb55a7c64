package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/watchlist"
)

// TestRunScores calls simulated reads of a phage without an annotation and has a network score what it calls: the scores of the stream are those that
// pore annotate gives the same alleles, they say by which network and under which licence, and panels can ask for them.
func TestRunScores(t *testing.T) {
	t.Parallel()
	lambda := filepath.Join("..", "..", "testdata", "lambda", "reference.fa")
	network := filepath.Join("..", "..", "annotate", "network", "testdata", "splice")
	dir := t.TempDir()
	reads, out, panel := filepath.Join(dir, "reads.fastq"), filepath.Join(dir, "out"), filepath.Join(dir, "panel.yaml")
	_, err := poreWith(t, nil, "simulate", "reads", "--ref", lambda, "--variants", "snp=12,indel=6", "--profile", "r10.4.1-2pct", "--depth", "25", "--length", "4000",
		"--seed", "3", "--truth", filepath.Join(dir, "truth.vcf"), "-o", reads)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(panel, []byte("panel: p\nversion: 1\nrules:\n- {id: some, match: {region: \"J02459.1\", score: \">= 0.01\"}}\n- {id: none, match: {region: \"J02459.1\", score: \">= 1\"}}\n"), 0o600))
	run := []string{"run", "--ref", lambda, "--gff", "auto", "--panel", panel, "--run", "r", "--sample", "s", "--device", "cpu", "--out", out, reads}
	_, err = poreWith(t, nil, run...)
	require.ErrorContains(t, err, `asks for scores of a sequence network, and there is none: give --network`)
	_, err = poreWith(t, nil, append(slices.Clone(run), "--network", network)...)
	require.NoError(t, err)

	called, err := os.ReadFile(filepath.Join(out, "variants.vcf"))
	require.NoError(t, err)
	require.Regexp(t, `\n##sequenceNetwork=<ID=small,Version="1",SHA256=[0-9a-f]{64},Licence="Apache-2.0">\n`, string(called))
	offline, err := poreWith(t, nil, "annotate", "--ref", lambda, "--gff", "auto", "--network", network, "--device", "cpu", "--log-level", "error", filepath.Join(out, "variants.vcf"))
	require.NoError(t, err)
	scores := func(text, key string) (all []string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Split(line, "\t")
			var value string
			for entry := range strings.SplitSeq(f[7], ";") {
				if v, ok := strings.CutPrefix(entry, key+"="); ok {
					value = v
				}
			}
			all = append(all, strings.Join([]string{f[1], f[3], f[4], value}, " "))
		}
		return all
	}
	live := scores(string(called), "small")
	require.Greater(t, len(live), 12)
	require.Contains(t, strings.Join(live, "\n"), "|PORE_")
	require.Equal(t, scores(offline, "Small"), live)

	events, err := os.ReadFile(filepath.Join(out, "variants.jsonl"))
	require.NoError(t, err)
	scored := 0
	for line := range strings.Lines(string(events)) {
		var v event.Variant
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		for _, s := range v.Annotation.Scores {
			scored++
			require.Equal(t, []string{"small", "1", "Apache-2.0"}, []string{s.Network, s.Version, s.Licence})
		}
	}
	require.Greater(t, scored, 10)

	text, err := os.ReadFile(filepath.Join(out, "alerts.json"))
	require.NoError(t, err)
	var alerts []*watchlist.Alert
	require.NoError(t, json.Unmarshal(text, &alerts))
	detected := make(map[string]bool)
	for _, a := range alerts {
		if a.State == watchlist.Detected {
			detected[a.Rule] = true
		}
	}
	require.Equal(t, map[string]bool{"some": true}, detected)
}
