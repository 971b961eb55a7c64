package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
)

// Of the counts on the topic those of CpGs answer: a caller of all C has calls elsewhere, too.
func TestConsumedPanel(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">c\n" + strings.Repeat("ACGTCA", 10) + "\n"))
	require.NoError(t, err)
	s := &methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "s", Revision: 1, Status: methylation.Provisional,
		Stretch: event.Stretch{Contig: "c", Pos: 1, End: 60}, Code: "m", Sites: methylation.NewSites(),
	}
	for pos, base := range g.Contigs[0].Seq {
		strand := map[byte]pileup.Strand{'C': pileup.Plus, 'G': pileup.Minus}[base]
		if strand == 0 {
			continue
		}
		row := pileup.Row{Pos: pos, Strand: strand, Canonical: 30}
		if pos%6 < 4 { // CG, and not the C of CA
			row.Canonical, row.Modified = 1, 29
		}
		s.Sites.Add(&row)
	}
	out, err := s.Record("methylation")
	require.NoError(t, err)
	fold := pipeline.NewMethylationFold(1)
	_, err = fold.Add(stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers})
	require.NoError(t, err)
	cfg := consumeConfig{format: regionList, panel: methylationPanel{alpha: 0.01, rules: filepath.Join(t.TempDir(), "rules"), sites: filepath.Join(t.TempDir(), "sites")}}
	require.NoError(t, os.WriteFile(cfg.panel.rules, []byte("c\t0\t60\tpromoter\tmethylated\n"), 0o600))
	require.NoError(t, os.WriteFile(cfg.panel.sites, []byte("c\t1\t3\tcg1\nc\t4\t5\tca1\n"), 0o600))
	require.NoError(t, cfg.panel.load())
	var table bytes.Buffer
	require.NoError(t, writePanel(&table, &cfg, fold, "s", g))
	require.Contains(t, table.String(), "\npromoter\tc\t0\t60\tmethylated\tm\tDETECTED\t0.9667\t60.0\t20\t")
	table.Reset()
	cfg.format = stateList
	require.NoError(t, writePanel(&table, &cfg, fold, "s", g))
	require.Equal(t, "#site\tstate\tmodified\tcalls\ncg1\t1\t58\t60\nca1\t.\t0\t0\n", table.String())
}
