package processor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/variant/carryover"
)

// Controls names the negative controls of runs.
type Controls struct{ negative, noTemplate []string }

// Register adds the flags.
func (f *Controls) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.negative, "control", nil, "sample or barcode that is a negative control with nucleic acid of its own; may be repeated. A sample sheet's column type names controls, too")
	flags.StringArrayVar(&f.noTemplate, "no-template-control", nil, "sample or barcode that is a control without template (water); may be repeated")
}

// Named reports whether flags name controls.
func (f *Controls) Named() bool { return len(f.negative)+len(f.noTemplate) > 0 }

// Of are the controls that the flags name and, of a run, the sample sheet of a file; a run that is nil stands for all of the sheet, a sheet that is nil for none.
func (f *Controls) Of(sheet *demux.Sheet, path string, run *demux.RunKey) (carryover.Controls, error) {
	controls := make(carryover.Controls)
	for _, named := range []struct {
		kind carryover.Kind
		flag string
		list []string
	}{{carryover.Negative, "control", f.negative}, {carryover.NoTemplate, "no-template-control", f.noTemplate}} {
		for _, name := range named.list {
			if sheet != nil && !slices.Contains(sheet.Names(), name) && !slices.Contains(sheet.Barcodes(), name) {
				return nil, cli.Usagef("--%s %s: the sample sheet %s has no such alias or barcode: it has %s", named.flag, name, path, strings.Join(sheet.Names(), ", "))
			}
			if kind, twice := controls[name]; twice && kind != named.kind {
				return nil, cli.Usagef("%s is named by --control and by --no-template-control: it is one of them", name)
			}
			controls[name] = named.kind
		}
	}
	if sheet == nil {
		return controls, nil
	}
	for _, name := range slices.Sorted(maps.Keys(controls)) { // by its barcode
		var key demux.RunKey // of a sheet of one flow cell nothing needs to be known
		if run != nil {
			key = *run
		}
		if alias := sheet.Alias(key.FlowCell, key.Position, name); alias != "" {
			controls[alias] = controls[name]
			delete(controls, name)
		}
	}
	for _, c := range sheet.Controls(run) {
		kind := carryover.Negative
		if c.NoTemplate {
			kind = carryover.NoTemplate
		}
		if own, named := controls[c.Name]; named && own != kind {
			return nil, fmt.Errorf("%s: it has %s as %s, and a flag as %s", path, c.Name, kind, own)
		}
		controls[c.Name] = kind
	}
	return controls, nil
}
