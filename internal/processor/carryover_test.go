package processor

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream/streampb"
)

// TestNamedControls: a run has the controls that flags, a sheet and what it comes with name, by its samples' names; if one isn't among these it has those that it comes
// with, which is said once.
func TestNamedControls(t *testing.T) {
	sheet, err := demux.ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F,barcode01,a,test_sample\nK,e,F,barcode02,water,no_template_control\nK,e,F,barcode03,wild,\n"))
	require.NoError(t, err)
	come := func(names ...string) (list []*streampb.Control) {
		for _, name := range names {
			list = append(list, &streampb.Control{Sample: name, Kind: "negative_control"})
		}
		return list
	}
	for _, tt := range []struct {
		name         string
		flags        Controls
		sheet        *demux.Sheet
		run          *streampb.Run
		named, known string // as they are called, and among the samples
		log          string
	}{
		{"none", Controls{}, nil, &streampb.Run{Samples: []string{"a", "b"}}, "", "", ""},
		{"a sheet's", Controls{}, sheet, &streampb.Run{FlowCell: "F", Samples: []string{"a", "water", "wild"}}, "water no_template_control", "water no_template_control", ""},
		{"a sheet's and a flag's", Controls{negative: []string{"barcode03"}}, sheet, &streampb.Run{FlowCell: "F", Samples: []string{"a", "water", "wild"}},
			"water no_template_control, wild negative_control", "water no_template_control, wild negative_control", ""},
		{"a barcode", Controls{negative: []string{"barcode02"}}, nil, &streampb.Run{Samples: []string{"r_barcode01", "r_barcode02"}}, "barcode02 negative_control", "r_barcode02 negative_control", ""},
		{"what it comes with", Controls{}, nil, &streampb.Run{Samples: []string{"a", "r_barcode02"}, Controls: come("barcode02")}, "barcode02 negative_control", "r_barcode02 negative_control", ""},
		{"both", Controls{noTemplate: []string{"w"}}, nil, &streampb.Run{Samples: []string{"a", "w", "x"}, Controls: come("w", "x")}, "w no_template_control, x negative_control", "w no_template_control, x negative_control", ""},
		{"no sample of the run", Controls{negative: []string{"x"}}, nil, &streampb.Run{Id: "r", Samples: []string{"a", "b"}}, "x negative_control", "", "control x is not among the samples of run r, which are a, b"},
		{"no sample of the run, which comes with others", Controls{negative: []string{"x"}}, nil, &streampb.Run{Id: "r", Samples: []string{"a", "b"}, Controls: come("b")}, "b negative_control, x negative_control", "b negative_control",
			"by the controls alone that it comes with"},
		{"all of them", Controls{negative: []string{"a"}}, nil, &streampb.Run{Id: "r", Sample: "a"}, "a negative_control", "", "all samples of run r are controls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			n := &NamedControls{Flags: &tt.flags, Sheet: tt.sheet, Path: "sheet.csv", Logger: slog.New(slog.NewTextHandler(&log, nil))}
			lines := func(list []*streampb.Control) string {
				var all []string
				for _, c := range list {
					all = append(all, fmt.Sprint(c.GetSample(), " ", c.GetKind()))
				}
				return strings.Join(all, ", ")
			}
			require.Equal(t, tt.named, lines(n.Named(tt.run)))
			require.Equal(t, tt.known, lines(n.OfSamples(tt.run)))
			require.Equal(t, tt.known, lines(n.OfSamples(tt.run)))
			if tt.log == "" {
				require.Empty(t, log.String())
				return
			}
			require.Equal(t, 1, strings.Count(log.String(), tt.log), log.String())
		})
	}
}
