package demux

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sheetText = `experiment_id,kit,flow_cell_id,position_id,alias,barcode
run_1,SQK-RBK114-24,FAX001,,patient-1,barcode01
run_1,SQK-RBK114-24,FAX001,,patient-2,barcode02
run_1,SQK-RBK114-24,FAX002,X2,patient-3,barcode01
run_1,SQK-RBK114-24,FAX001,,,barcode03
`

func TestSheet(t *testing.T) {
	s, err := ParseSheet(strings.NewReader("\ufeff" + sheetText))
	require.NoError(t, err)
	require.Equal(t, []string{"barcode01", "barcode02", "barcode03"}, s.Barcodes())
	require.NoError(t, s.Kit("sqk-rbk114.24"))
	require.ErrorContains(t, s.Kit("SQK-NBD114-24"), "line 2: kit SQK-RBK114-24 is not SQK-NBD114-24")
	for _, tt := range []struct{ flowCell, position, barcode, alias string }{
		{"FAX001", "X1", "barcode01", "patient-1"},
		{"FAX001", "", "barcode02", "patient-2"},
		{"FAX001", "", "barcode03", ""},
		{"FAX002", "X2", "barcode01", "patient-3"},
		{"FAX002", "X3", "barcode01", ""},
		{"FAX009", "X1", "barcode01", ""},
		{"FAX001", "X1", "barcode09", ""},
	} {
		require.Equal(t, tt.alias, s.Alias(tt.flowCell, tt.position, tt.barcode), "%+v", tt)
	}
	for _, tt := range []struct{ old, with, says string }{
		{sheetText, "", "it is empty"},
		{sheetText, "experiment_id,kit,position_id\n", "no row"},
		{"position_id", "position", `line 1: column "position" is none of experiment_id, kit`},
		{"position_id", "kit", "line 1: column kit occurs twice"},
		{"experiment_id,", "sample_id,", "line 1: column experiment_id is missing"},
		{"flow_cell_id,position_id", "sample_id,type", "flow_cell_id and position_id are both missing"},
		{",patient-2,", ",patient 2,", "line 3: alias \"patient 2\" is not 1 to 40"},
		{",patient-2,", ",barcode07,", "line 3: alias \"barcode07\" is what a barcode is called"},
		{",patient-2,", ",patient-1,", "line 3: alias patient-1 is that of barcode01 in line 2"},
		{"barcode02", "barcode2", "line 3: barcode \"barcode2\" is not of the form"},
		{"barcode02", "barcode01", "line 3: barcode01 of this flow cell and position is in line 2 already"},
		{"run_1,SQK-RBK114-24,FAX001,,patient-2", "run_2,SQK-RBK114-24,FAX001,,patient-2", "line 3: experiment_id run_2 is another than run_1 in line 2"},
		{"FAX002,X2", ",", "line 4: flow_cell_id and position_id are both empty"},
		{"patient-2,barcode02", "patient-2", "record on line 3: wrong number of fields"},
	} {
		_, err := ParseSheet(strings.NewReader(strings.Replace(sheetText, tt.old, tt.with, 1)))
		require.ErrorContains(t, err, tt.says)
	}
}

func FuzzParseSheet(f *testing.F) {
	f.Add(sheetText)
	f.Add("kit,experiment_id,position_id\nK,e,p")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSheet(strings.NewReader(text)); err == nil {
			for _, b := range s.Barcodes() {
				s.Alias("F", "P", b)
			}
		}
	})
}
