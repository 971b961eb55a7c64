package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/demux"
)

// TestDemux sorts two reads by a kit and a sample sheet, and refuses to do so twice into
// one folder.
func TestDemux(t *testing.T) {
	kit, err := demux.OpenKit("SQK-RBK114-24")
	require.NoError(t, err)
	insert := strings.Repeat("ACGGTCATTGCAACTG", 30)
	text := "@HD\tVN:1.6\n@RG\tID:run1_m\tPU:FAX1\n"
	for i := range 3 {
		sequence := "TTCGTTCAGTTACGTATTGCT" + kit.Front.Outer + kit.Barcodes[i].Front + kit.Front.Inner + insert
		text += fmt.Sprintf("read%d\t4\t*\t0\t0\t*\t*\t0\t0\t%s\t*\tRG:Z:run1_m\n", i, sequence)
	}
	dir := t.TempDir()
	in, sheet, out := filepath.Join(dir, "in.sam"), filepath.Join(dir, "sheet.csv"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(in, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(sheet, []byte("kit,experiment_id,flow_cell_id,barcode,alias\n"+
		"SQK-RBK114-24,e,FAX1,barcode01,patient-1\nSQK-RBK114-24,e,FAX1,barcode03,\n"), 0o600))
	run := func(args ...string) (string, error) {
		cmd := command()
		var stdout bytes.Buffer
		cmd.SetOut(&stdout)
		cmd.SetErr(&stdout)
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return stdout.String(), err
	}
	table, err := run("demux", "--kit-name", "sqk-rbk114.24", "--sample-sheet", sheet, "--out", out, in)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`  READS  BASES  BARCODE
      1    %d  SQK-RBK114-24_barcode03
      1    %d  patient-1
      1    %d  unclassified
`, len(insert), len(insert), len(insert)), table, "barcode02 is not on the sheet; its read is cut behind what every rapid kit leaves")
	_, err = run("demux", "--kit-name", "SQK-RBK114-24", "--out", out, in)
	require.ErrorContains(t, err, "SQK-RBK114-24_barcode03.bam is there already")
	again, broken := filepath.Join(dir, "again"), filepath.Join(dir, "broken.sam")
	require.NoError(t, os.WriteFile(broken, []byte(text+"read3\t4\n"), 0o600))
	_, err = run("demux", "--kit-name", "SQK-RBK114-24", "--out", again, broken)
	require.ErrorContains(t, err, "record 4: ")
	_, err = run("demux", "--kit-name", "SQK-RBK114-24", "--out", again, in)
	require.NoError(t, err, "what failed is in nobody's way")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"demux", in}, "--out is required"},
		{[]string{"demux", "--out", out, "--kit-name", "X", in}, `kit "X" is none of EXP-NBD103`},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK004", "--barcodes", sheet, in}, "exclude each other"},
		{[]string{"demux", "--out", out, "--barcodes", sheet, in}, "sheet.csv: line 1"},
		{[]string{"demux", "--out", out, "--no-trim", in}, "go with --kit-name"},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK004", "--trim", "all", "--no-trim", in}, "--no-trim and --trim all exclude each other"},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK004", "--sample-sheet", sheet, in}, "line 2: kit SQK-RBK114-24 is not SQK-RBK004"},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK004", "--barcode-both-ends", in}, "at one end only"},
		{[]string{"demux", "--out", out, "--inner-kit-name", "EXP-PBC096", in}, "--inner-kit-name and --inner-barcodes are about a second barcode: name the kit of the outer one with --kit-name"},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK114-24", "--inner-kit-name", "Y", in}, `--inner-kit-name: kit "Y" is none of`},
		{[]string{"demux", "--out", out, "--kit-name", "SQK-RBK114-24", "--inner-kit-name", "EXP-PBC096", "--sample-sheet", sheet, in}, "sheet.csv: line 2: kit SQK-RBK114-24 is not EXP-PBC096"},
		{[]string{"basecall", "--barcode-both-ends", in}, "name a kit with --kit-name"},
	} {
		_, err := run(tt.args...)
		require.ErrorContains(t, err, tt.says, "%v", tt.args)
	}
}
