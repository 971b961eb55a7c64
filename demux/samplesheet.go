package demux

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Sheet is a MinKNOW sample sheet: it says which barcodes a run has and what their
// samples are called.
type Sheet struct {
	rows []sheetRow
}

type sheetRow struct {
	line                                         int
	kit, flowCell, position, experiment, barcode string
	alias                                        string
}

// sheetColumns are those that a sample sheet may have.
var sheetColumns = []string{
	"experiment_id", "kit", "flow_cell_id", "position_id", "protocol_run_id", "sample_id", "flow_cell_product_code",
	"alias", "type", "barcode",
}

var (
	sheetName    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)
	sheetBarcode = regexp.MustCompile(`^barcode[0-9]{2,4}$`)
)

// maxSheet bounds a sample sheet, in bytes.
const maxSheet = 16 << 20

// ParseSheet reads a sample sheet: CSV with a line of column names. kit, experiment_id
// and one of flow_cell_id and position_id are required; experiment_id is the same in
// all rows; alias must not look like a barcode. Columns and rules are MinKNOW's.
func ParseSheet(r io.Reader) (*Sheet, error) {
	limited := &io.LimitedReader{R: r, N: maxSheet + 1}
	in := csv.NewReader(limited)
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty; it begins with a line of column names")
	}
	if err != nil {
		return nil, err
	}
	columns := make(map[string]int)
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if !slices.Contains(sheetColumns, name) {
			return nil, fmt.Errorf("line 1: column %q is none of %s", name, strings.Join(sheetColumns, ", "))
		}
		if _, twice := columns[name]; twice {
			return nil, fmt.Errorf("line 1: column %s occurs twice", name)
		}
		columns[name] = i
	}
	has := func(name string) bool { _, ok := columns[name]; return ok }
	for _, name := range []string{"kit", "experiment_id"} {
		if !has(name) {
			return nil, fmt.Errorf("line 1: column %s is missing", name)
		}
	}
	if !has("flow_cell_id") && !has("position_id") {
		return nil, errors.New("line 1: columns flow_cell_id and position_id are both missing")
	}
	sheet := new(Sheet)
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		get := func(name string) string {
			if i, ok := columns[name]; ok {
				return strings.TrimSpace(fields[i])
			}
			return ""
		}
		row := sheetRow{
			line: line, kit: get("kit"), flowCell: get("flow_cell_id"), position: get("position_id"),
			experiment: get("experiment_id"), barcode: get("barcode"), alias: get("alias"),
		}
		if err := sheet.add(row); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("it is larger than %d bytes", maxSheet)
	}
	if len(sheet.rows) == 0 {
		return nil, errors.New("it has no row below the column names")
	}
	return sheet, nil
}

func (s *Sheet) add(row sheetRow) error {
	switch {
	case row.kit == "":
		return errors.New("kit is empty")
	case row.flowCell == "" && row.position == "":
		return errors.New("flow_cell_id and position_id are both empty")
	case !sheetName.MatchString(row.experiment):
		return fmt.Errorf("experiment_id %q is not 1 to 40 letters, digits, dashes and underscores", row.experiment)
	case row.barcode != "" && !sheetBarcode.MatchString(row.barcode):
		return fmt.Errorf("barcode %q is not of the form barcode01", row.barcode)
	case row.alias != "" && !sheetName.MatchString(row.alias):
		return fmt.Errorf("alias %q is not 1 to 40 letters, digits, dashes and underscores", row.alias)
	case row.alias == Unclassified || sheetBarcode.MatchString(row.alias):
		return fmt.Errorf("alias %q is what a barcode is called", row.alias)
	case row.alias != "" && row.barcode == "":
		return fmt.Errorf("alias %s has no barcode", row.alias)
	}
	for _, other := range s.rows {
		if other.experiment != row.experiment {
			return fmt.Errorf("experiment_id %s is another than %s in line %d", row.experiment, other.experiment, other.line)
		}
		if other.barcode == row.barcode && other.flowCell == row.flowCell && other.position == row.position {
			return fmt.Errorf("%s of this flow cell and position is in line %d already", row.barcode, other.line)
		}
		if row.alias != "" && other.alias == row.alias && other.barcode != row.barcode {
			return fmt.Errorf("alias %s is that of %s in line %d", row.alias, other.barcode, other.line)
		}
	}
	s.rows = append(s.rows, row)
	return nil
}

// Kit returns an error unless all rows are for a kit.
func (s *Sheet) Kit(name string) error {
	for _, row := range s.rows {
		// MinKNOW lists expansions beside the kit, separated by spaces.
		if !slices.ContainsFunc(strings.Fields(row.kit), func(k string) bool { return kitKey(k) == kitKey(name) }) {
			return fmt.Errorf("line %d: kit %s is not %s", row.line, row.kit, name)
		}
	}
	return nil
}

// Barcodes lists the barcodes that any run has, in order; none where the sheet has no
// column for them.
func (s *Sheet) Barcodes() []string {
	var names []string
	for _, row := range s.rows {
		if row.barcode != "" {
			names = append(names, row.barcode)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Lists tells whether a run that is known by its flow cell and position has a barcode.
func (s *Sheet) Lists(flowCell, position, barcode string) bool {
	return slices.ContainsFunc(s.rows, func(row sheetRow) bool { return row.is(flowCell, position, barcode) })
}

func (row *sheetRow) is(flowCell, position, barcode string) bool {
	return row.barcode == barcode && (row.flowCell == "" || row.flowCell == flowCell) && (row.position == "" || row.position == position)
}

// Alias returns what the sample with a barcode is called in a run that is known by its
// flow cell and position. It is empty if the sheet doesn't tell.
func (s *Sheet) Alias(flowCell, position, barcode string) string {
	for _, row := range s.rows {
		if row.is(flowCell, position, barcode) {
			return row.alias
		}
	}
	return ""
}
