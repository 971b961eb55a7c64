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

func TestSheetNamesSamplesByBarcode(t *testing.T) {
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
		{"patient-2,barcode02", "patient-2", "line 3: alias patient-2 has no barcode"},
		{"patient-2,barcode02", "patient-2,barcode02,x", "line 3: it has 7 fields for 6 columns"},
		{",barcode\n", ",internal_barcode\n", "line 1: of the columns external_barcode and internal_barcode there is only one"},
	} {
		_, err := ParseSheet(strings.NewReader(strings.Replace(sheetText, tt.old, tt.with, 1)))
		require.ErrorContains(t, err, tt.says)
	}
}

// TestDualSheet: a sheet with external and internal barcodes names samples by the pair.
func TestDualSheet(t *testing.T) {
	const text = `experiment_id,kit,flow_cell_id,alias,barcode,external_barcode,internal_barcode
run_1,SQK-NBD114-24 EXP-PBC096,FAX001,patient-1,,barcode07,barcode02
run_1,SQK-NBD114-24 EXP-PBC096,FAX001,patient-2,,barcode02,barcode07
run_1,SQK-NBD114-24 EXP-PBC096,FAX001,patient-3,,barcode07,barcode96
`
	s, err := ParseSheet(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, []string{"barcode02_07", "barcode07_02", "barcode07_96"}, s.Barcodes())
	require.Equal(t, "patient-1", s.Alias("FAX001", "", "barcode07_02"))
	require.Equal(t, "patient-2", s.Alias("FAX001", "", "barcode02_07"))
	require.Empty(t, s.Alias("FAX001", "", "barcode07"))
	require.NoError(t, s.Kit("SQK-NBD114-24"))
	require.NoError(t, s.Kit("EXP-PBC096"))
	require.Empty(t, s.Ignored())
	kit, err := dual(t).Only(s.Barcodes())
	require.NoError(t, err)
	require.Equal(t, s.Barcodes(), NewClassifier(kit, false).Barcodes())
	outer, err := OpenKit("SQK-NBD114-24")
	require.NoError(t, err)
	_, err = outer.Only(s.Barcodes())
	require.ErrorContains(t, err, "barcode02_07 is a pair of barcodes, of which kit SQK-NBD114-24 has the outer one: the kit of the inner one is missing")
	for _, tt := range []struct{ old, with, says string }{
		{"patient-2,,barcode02,barcode07", "patient-2,,barcode02,", "line 3: of external_barcode and internal_barcode only one is filled in"},
		{"patient-2,,", "patient-2,barcode01,", "line 3: it has barcode barcode01 besides external_barcode and internal_barcode"},
		{"patient-2,,barcode02,barcode07", "patient-2,barcode01,,", "line 3: it has barcode01 and line 2 barcode07_02: samples have either one barcode or an external and an internal one"},
		{"barcode02,barcode07", "barcode07,barcode02", "line 3: barcode07_02 of this flow cell and position is in line 2 already"},
		{"barcode02,barcode07", "barcode02,NB07", `line 3: internal_barcode "NB07" is not of the form barcode01`},
		{"patient-2", "barcode07_02", `line 3: alias "barcode07_02" is what a barcode is called`},
	} {
		_, err := ParseSheet(strings.NewReader(strings.Replace(text, tt.old, tt.with, 1)))
		require.ErrorContains(t, err, tt.says)
	}
}

// TestSheetsOfSpreadsheets: what spreadsheets make of a sheet is read as the sheet.
func TestSheetsOfSpreadsheets(t *testing.T) {
	want, err := ParseSheet(strings.NewReader(sheetText))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"rows of commas":            strings.ReplaceAll(sheetText, "\n", "\n,,,,,\n") + ",,,,,,,\n",
		"commas behind":             strings.ReplaceAll(sheetText, "\n", ",,,\n"),
		"Windows":                   "\ufeff" + strings.ReplaceAll(sheetText, "\n", "\r\n"),
		"semicolons":                strings.ReplaceAll(sheetText, ",", ";"),
		"tabs":                      strings.ReplaceAll(sheetText, ",", "\t"),
		"names in capitals, blanks": strings.Replace(sheetText, "flow_cell_id,position_id", "Flow_Cell_ID , POSITION_ID", 1),
		"quotes":                    strings.ReplaceAll(sheetText, "SQK-RBK114-24", `"SQK-RBK114-24"`),
	} {
		got, err := ParseSheet(strings.NewReader(text))
		require.NoError(t, err, name)
		for i := range got.rows {
			got.rows[i].line = want.rows[i].line
		}
		require.Equal(t, want, got, name)
	}
	more, err := ParseSheet(strings.NewReader(strings.NewReplacer("barcode\n", "barcode,Ward,concentration\n", "barcode01\n", "barcode01,3,1.5\n").Replace(sheetText)))
	require.NoError(t, err)
	require.Equal(t, []string{"ward", "concentration"}, more.Ignored())
	require.Equal(t, "patient-1", more.Alias("FAX001", "", "barcode01"))
}

// TestSheetCheck: a sheet of other runs is an error, and rows of further runs are reported.
func TestSheetCheck(t *testing.T) {
	s, err := ParseSheet(strings.NewReader(sheetText))
	require.NoError(t, err)
	warnings, err := s.Check([]RunKey{{"a", "FAX001", "X1"}, {"b", "FAX002", "X2"}})
	require.NoError(t, err)
	require.Empty(t, warnings)
	_, err = s.Check([]RunKey{{"a", "FAX003", "X1"}, {"b", "FAX002", ""}})
	require.EqualError(t, err, "no row is of run a (flow cell FAX003, position X1); b (flow cell FAX002, position unknown): the rows are of flow cell FAX001; flow cell FAX002, position X2: is it the sheet of another flow cell?")
	warnings, err = s.Check([]RunKey{{"a", "FAX003", "X1"}, {"b", "FAX001", ""}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"no row is of run a (flow cell FAX003, position X1): its reads belong to no sample of the sheet", "aliases are of no run here: patient-3",
	}, warnings)

	// What a file doesn't say of its run is no contradiction where the sheet has one run.
	one, err := ParseSheet(strings.NewReader("experiment_id,kit,flow_cell_id,alias,barcode\ne,K,FAX001,a,barcode01\ne,K,FAX001,b,barcode02\n"))
	require.NoError(t, err)
	require.Equal(t, "b", one.Alias("", "", "barcode02"))
	require.Equal(t, []string{"a", "b"}, one.Aliases("", "X1"))
	require.Equal(t, "", one.Alias("FAX002", "", "barcode02"))
	require.False(t, s.Of("", ""))
}

func FuzzParseSheet(f *testing.F) {
	f.Add(sheetText)
	f.Add("kit,experiment_id,position_id\nK,e,p")
	f.Add("kit,experiment_id,position_id,alias,external_barcode,internal_barcode\nK,e,p,a,barcode01,barcode02")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSheet(strings.NewReader(text)); err == nil {
			for _, b := range s.Barcodes() {
				s.Alias("F", "P", b)
			}
		}
	})
}

// TestSheetControls: column type names the controls of a row's run, and a value that it doesn't know is reported.
func TestSheetControls(t *testing.T) {
	sheet, err := ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,barcode,alias,type\n" +
		"K,e,F1,barcode01,a,test_sample\nK,e,F1,barcode02,,Negative_Control\nK,e,F1,barcode03,water,no_template_control\nK,e,F2,barcode01,wild,control\nK,e,F2,barcode02,x,blank\nK,e,F2,barcode03,y,\n"))
	require.NoError(t, err)
	require.Equal(t, []Control{{Name: "barcode02"}, {Name: "water", NoTemplate: true}}, sheet.Controls(&RunKey{FlowCell: "F1"}))
	require.Equal(t, []Control{{Name: "wild"}}, sheet.Controls(&RunKey{FlowCell: "F2"}))
	require.Empty(t, sheet.Controls(&RunKey{}), "of which run isn't known")
	require.Len(t, sheet.Controls(nil), 3)
	require.Equal(t, []string{"a", "barcode02", "water", "wild", "x", "y"}, sheet.Names())
	warnings, err := sheet.Check([]RunKey{{ID: "r1", FlowCell: "F1"}, {ID: "r2", FlowCell: "F2"}})
	require.NoError(t, err)
	require.Equal(t, []string{"column type has blank in line 6, which is taken for a sample: there are test_sample, positive_control, negative_control, no_template_control"}, warnings)
}
