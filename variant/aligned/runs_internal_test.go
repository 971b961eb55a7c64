package aligned

import (
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// A read of a file has the same run as on the stream, whichever way the file names it.
func TestReadsAreOfTheirRuns(t *testing.T) {
	const (
		uuid     = "73f379bd-ad92-8556-ba34-c43b4a3d8b19"
		named    = uuid + "_dna_r10.4.1_e8.2_400bps_hac@v5.0.0_SQK-NBD114-24_barcode01"
		unlisted = uuid + "_dna_r10.4.1_e8.2_400bps_sup@v5.0.0"
	)
	g, err := genome.Read(strings.NewReader(">c\nACGTACGT\n"))
	require.NoError(t, err)
	rows := []struct{ group, tags, want string }{
		{"", "", ""},
		{"plain", "", ""},
		{"described", "", "run5"},
		{named, "", uuid},
		{"", "\tDS:Z:runid=run6 basecall_model=x", "run6"},
		{"described", "\tDS:Z:runid=run6", "run5"},
		{unlisted, "", uuid},
		{"nobody", "", ""},
	}
	var text strings.Builder
	text.WriteString("@SQ\tSN:c\tLN:8\n@RG\tID:plain\tSM:s\n@RG\tID:described\tDS:basecall_model=m runid=run5\n@RG\tID:" + named + "\tSM:s\n")
	for _, row := range rows {
		text.WriteString("r\t0\tc\t1\t60\t4M\t*\t0\t0\tACGT\tIIII" + row.tags)
		if row.group != "" {
			text.WriteString("\tRG:Z:" + row.group)
		}
		text.WriteByte('\n')
	}
	a, err := Read(strings.NewReader(text.String()), g)
	require.NoError(t, err)
	defer a.Close()
	for _, row := range rows {
		var rec *sam.Record
		rec, err = a.records.Read()
		require.NoError(t, err)
		read, _, err := a.parse(rec, g.Contigs[0])
		require.NoError(t, err)
		require.Equal(t, row.want, read.Run, row)
	}
}
