package processor

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/variant/carryover"
)

// TestControlsByBarcode: a control that a flag names by its barcode goes by its alias, also where nothing is known of the run, as of a BAM file, and the sheet is of one flow
// cell. What flag and sheet say of one control must agree.
func TestControlsByBarcode(t *testing.T) {
	const head = "kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F1,barcode01,a,\nK,e,F1,barcode02,wild,negative_control\nK,e,F1,barcode03,water,\n"
	read := func(text string) *demux.Sheet {
		sheet, err := demux.ParseSheet(strings.NewReader(text))
		require.NoError(t, err)
		return sheet
	}
	named := func(args ...string) *Controls {
		var c Controls
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Register(flags)
		require.NoError(t, flags.Parse(args))
		return &c
	}
	want := carryover.Controls{"wild": carryover.Negative, "water": carryover.NoTemplate}
	for _, run := range []*demux.RunKey{nil, {FlowCell: "F1"}} {
		for _, name := range []string{"barcode03", "water"} {
			got, err := named("--no-template-control", name, "--control", "barcode02").Of(read(head), "s.csv", run)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		_, err := named("--no-template-control", "barcode02").Of(read(head), "s.csv", run)
		require.EqualError(t, err, "s.csv: it has wild as negative_control, and a flag as no_template_control")
	}
	got, err := named("--control", "barcode03").Of(read(head+"K,e,F2,barcode03,other,\n"), "s.csv", nil)
	require.NoError(t, err)
	require.Contains(t, got, "barcode03", "of two flow cells nothing tells whose it is")
}
