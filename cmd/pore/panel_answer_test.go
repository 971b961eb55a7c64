package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// What a panel says of a sample, with all codons or some, is what the training's own network says of it.
func TestPanelAnswersAsItsModelWasTrained(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	t.Parallel()
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "the training code", "biomarker_train", "sklearn")
	dir := t.TempDir()
	var want map[string]map[string]float64
	oracle(t, &want, python, "testdata/biomarker.py", dir)
	for name, text := range map[string]string{
		"ref.fa": ">c\n" + strings.Repeat("TGC", 40) + "\n",
		"genes.gff3": "##gff-version 3\n" +
			"c\t.\tgene\t1\t120\t.\t+\t.\tID=gene-G;Name=G;gene_biotype=protein_coding\n" +
			"c\t.\tmRNA\t1\t120\t.\t+\t.\tID=rna-G;Parent=gene-G\n" +
			"c\t.\tCDS\t1\t120\t.\t+\t0\tID=cds-G;Parent=rna-G;protein_id=G\n",
		"panel.yaml": "panel: toy\nversion: 1\nrules:\n- {id: a, model: {folder: model, output: a}}\n- {id: b, model: {folder: model, output: b}}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out, err := poreWith(t, nil, "panel", "answer", "--ref", filepath.Join(dir, "ref.fa"), "--gff", filepath.Join(dir, "genes.gff3"),
		filepath.Join(dir, "panel.yaml"), filepath.Join(dir, "list.tsv"))
	require.NoError(t, err)
	answers, partial := 0, 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		got, err := strconv.ParseFloat(cells[3], 64)
		require.NoError(t, err, line)
		assert.InDelta(t, want[cells[0]][cells[1]], got, 1e-4, line)
		answers++
		if cells[2] == "NOT_CALLABLE" {
			partial++
		}
	}
	assert.Equal(t, 120, answers)
	assert.Positive(t, partial)
}
