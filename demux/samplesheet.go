package demux

import (
	"bufio"
	"bytes"
	"cmp"
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
	// ignored are the columns that the sheet has besides those that are known.
	ignored []string
	// oneFlowCell and onePosition say that no two rows are of another.
	oneFlowCell, onePosition bool
}

// RunKey is what a sheet knows a run by. Flow cell and position are empty where they aren't
// known.
type RunKey struct{ ID, FlowCell, Position string }

type sheetRow struct {
	line                                         int
	kit, flowCell, position, experiment, barcode string
	alias, kind                                  string
}

// sheetColumns are those that a sample sheet may have.
var sheetColumns = []string{
	"experiment_id", "kit", "flow_cell_id", "position_id", "protocol_run_id", "sample_id", "flow_cell_product_code",
	"alias", "type", "barcode", "external_barcode", "internal_barcode",
}

// The values of column type. An empty one is a sample.
const (
	sheetSample     = "test_sample"
	sheetPositive   = "positive_control"
	sheetNegative   = "negative_control"
	sheetNoTemplate = "no_template_control"
	sheetControl    = "control" // in short for a negative one
)

var sheetTypes = []string{sheetSample, sheetPositive, sheetNegative, sheetNoTemplate}

var (
	sheetName    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)
	sheetBarcode = regexp.MustCompile(`^barcode[0-9]{2,4}$`)
	sheetPair    = regexp.MustCompile(`^barcode[0-9]{2,4}(?:_[0-9]{2,4})?$`)
)

// maxSheet bounds a sample sheet, in bytes.
const maxSheet = 16 << 20

// ParseSheet reads a sample sheet: CSV with a line of column names; separated by semicolons
// or tabs, as spreadsheets write it, too. kit, experiment_id and one of flow_cell_id and
// position_id are required; experiment_id is the same in all rows; alias must not have the form
// of a barcode. external_barcode and internal_barcode, instead of barcode, are for kits with two
// barcodes one behind the other. Columns and rules are MinKNOW's. Other columns are ignored, and rows
// without anything but separators.
func ParseSheet(r io.Reader) (*Sheet, error) {
	limited := &io.LimitedReader{R: r, N: maxSheet + 1}
	buffered := bufio.NewReader(limited)
	in := csv.NewReader(buffered)
	in.FieldsPerRecord = -1 // rows may end early, or with separators
	in.Comma = separatorOf(buffered)
	in.TrimLeadingSpace = in.Comma != '\t' // a tab is space, too
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty; it begins with a line of column names")
	}
	if err != nil {
		return nil, err
	}
	sheet := new(Sheet)
	columns, err := sheet.readColumns(header)
	if err != nil {
		return nil, err
	}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(fields, func(field string) bool { return strings.TrimSpace(field) != "" }) {
			continue
		}
		line, _ := in.FieldPos(0)
		if len(fields) > len(header) && strings.TrimSpace(strings.Join(fields[len(header):], "")) != "" {
			return nil, fmt.Errorf("line %d: it has %d fields for %d columns", line, len(fields), len(header))
		}
		get := func(name string) string {
			if i, ok := columns[name]; ok && i < len(fields) {
				return strings.TrimSpace(fields[i])
			}
			return ""
		}
		row := sheetRow{
			line: line, kit: get("kit"), flowCell: get("flow_cell_id"), position: get("position_id"),
			experiment: get("experiment_id"), alias: get("alias"), kind: strings.ToLower(get("type")),
		}
		row.barcode, err = barcodeOf(get)
		if err == nil {
			err = sheet.add(row)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("it is larger than %d bytes", maxSheet)
	}
	if len(sheet.rows) == 0 {
		return nil, errors.New("it has no row below the column names")
	}
	first := sheet.rows[0]
	sheet.oneFlowCell = !slices.ContainsFunc(sheet.rows, func(row sheetRow) bool { return row.flowCell != first.flowCell })
	sheet.onePosition = !slices.ContainsFunc(sheet.rows, func(row sheetRow) bool { return row.position != first.position })
	return sheet, nil
}

// readColumns returns the columns that are known, by name; the sheet keeps the names of the others. An error says which
// is missing or occurs twice.
func (s *Sheet) readColumns(header []string) (map[string]int, error) {
	columns := make(map[string]int)
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		switch {
		case name == "":
			continue
		case !slices.Contains(sheetColumns, name):
			s.ignored = append(s.ignored, name)
			continue
		}
		if _, twice := columns[name]; twice {
			return nil, fmt.Errorf("line 1: column %s occurs twice", name)
		}
		columns[name] = i
	}
	has := func(name string) bool { _, ok := columns[name]; return ok }
	for _, name := range []string{"kit", "experiment_id"} {
		if !has(name) {
			return nil, fmt.Errorf("line 1: column %s is missing: there are %s", name, strings.Join(header, ", "))
		}
	}
	if !has("flow_cell_id") && !has("position_id") {
		return nil, errors.New("line 1: columns flow_cell_id and position_id are both missing")
	}
	if has("external_barcode") != has("internal_barcode") {
		return nil, errors.New("line 1: of the columns external_barcode and internal_barcode there is only one: together they name the barcodes of a sample")
	}
	return columns, nil
}

// barcodeOf is the barcode of a row's columns, or what its external and internal one are
// called together; empty if it has none.
func barcodeOf(get func(column string) string) (string, error) {
	for _, column := range []string{"barcode", "external_barcode", "internal_barcode"} {
		if name := get(column); name != "" && !sheetBarcode.MatchString(name) {
			return "", fmt.Errorf("%s %q is not of the form barcode01", column, name)
		}
	}
	one, external, internal := get("barcode"), get("external_barcode"), get("internal_barcode")
	switch {
	case external == "" && internal == "":
		return one, nil
	case external == "" || internal == "":
		return "", errors.New("of external_barcode and internal_barcode only one is filled in")
	case one != "":
		return "", fmt.Errorf("it has barcode %s besides external_barcode and internal_barcode", one)
	}
	return pairName(external, internal), nil
}

// separatorOf is what stands between the fields of the first line.
func separatorOf(r *bufio.Reader) rune {
	head, _ := r.Peek(1 << 10)
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	for _, separator := range ",;\t" {
		if bytes.ContainsRune(line, separator) {
			return separator
		}
	}
	return ','
}

// Ignored lists the columns whose names aren't known.
func (s *Sheet) Ignored() []string { return s.ignored }

func (s *Sheet) add(row sheetRow) error {
	switch {
	case row.kit == "":
		return errors.New("kit is empty")
	case row.flowCell == "" && row.position == "":
		return errors.New("flow_cell_id and position_id are both empty")
	case !sheetName.MatchString(row.experiment):
		return fmt.Errorf("experiment_id %q is not 1 to 40 letters, digits, dashes and underscores", row.experiment)
	case row.alias != "" && !sheetName.MatchString(row.alias):
		return fmt.Errorf("alias %q is not 1 to 40 letters, digits, dashes and underscores", row.alias)
	case row.alias == Unclassified || sheetPair.MatchString(row.alias):
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
		if row.barcode != "" && other.barcode != "" && strings.Contains(row.barcode, "_") != strings.Contains(other.barcode, "_") {
			return fmt.Errorf("it has %s and line %d %s: samples have either one barcode or an external and an internal one", row.barcode, other.line, other.barcode)
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

// Barcodes lists the barcodes that any run has, in order, pairs of an external and an internal
// one as barcode07_02; none where the sheet has no column for them.
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

// Lists reports whether a run that is known by its flow cell and position has a barcode.
func (s *Sheet) Lists(flowCell, position, barcode string) bool {
	return slices.ContainsFunc(s.rows, func(row sheetRow) bool { return row.barcode == barcode && s.is(&row, flowCell, position) })
}

// is reports whether a row belongs to a run. If the flow cell or the position of a run isn't
// known, this is no contradiction as long as the sheet names only one.
func (s *Sheet) is(row *sheetRow, flowCell, position string) bool {
	fits := func(own, of string, one bool) bool { return own == "" || own == of || of == "" && one }
	return fits(row.flowCell, flowCell, s.oneFlowCell) && fits(row.position, position, s.onePosition)
}

// Of reports whether a row belongs to a run that is known by its flow cell and position.
func (s *Sheet) Of(flowCell, position string) bool {
	return slices.ContainsFunc(s.rows, func(row sheetRow) bool { return s.is(&row, flowCell, position) })
}

// Aliases lists what samples of a run are called, in order.
func (s *Sheet) Aliases(flowCell, position string) []string {
	var names []string
	for _, row := range s.rows {
		if row.alias != "" && s.is(&row, flowCell, position) {
			names = append(names, row.alias)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Control is a negative control of a sample sheet.
type Control struct {
	Name       string // alias, or else the barcode
	NoTemplate bool   // it has no nucleic acid of its own
}

// Controls lists the negative controls of a run, in the order of the rows; nil: of all runs.
func (s *Sheet) Controls(run *RunKey) []Control {
	var list []Control
	for i := range s.rows {
		row := &s.rows[i]
		control := Control{Name: cmp.Or(row.alias, row.barcode), NoTemplate: row.kind == sheetNoTemplate}
		if slices.Contains([]string{sheetNegative, sheetNoTemplate, sheetControl}, row.kind) && control.Name != "" && (run == nil || s.is(row, run.FlowCell, run.Position)) && !slices.Contains(list, control) {
			list = append(list, control)
		}
	}
	return list
}

// Names lists what samples of any run are called, in order: aliases, and barcodes that have none.
func (s *Sheet) Names() []string {
	var names []string
	for i := range s.rows {
		if name := cmp.Or(s.rows[i].alias, s.rows[i].barcode); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unknownTypes are the values of column type that no sheet should have, with their lines.
func (s *Sheet) unknownTypes() []string {
	var list []string
	for _, row := range s.rows {
		if row.kind != "" && row.kind != sheetControl && !slices.Contains(sheetTypes, row.kind) {
			list = append(list, fmt.Sprintf("%s in line %d", row.kind, row.line))
		}
	}
	return list
}

// Silent lists, ascending, the aliases of runs that no read is of; reads are the numbers of reads
// by alias.
func (s *Sheet) Silent(runs []RunKey, reads map[string]int64) []string {
	var silent []string
	for _, run := range runs {
		for _, alias := range s.Aliases(run.FlowCell, run.Position) {
			if reads[alias] == 0 {
				silent = append(silent, alias)
			}
		}
	}
	slices.Sort(silent)
	return slices.Compact(silent)
}

// Check compares the sheet with all runs that it is given for. It is an error if no row is
// of any of them; warnings are about runs without a row, aliases of other runs, and columns
// that are ignored, a line for each kind.
func (s *Sheet) Check(runs []RunKey) (warnings []string, err error) {
	var without, names []string
	for _, run := range runs {
		if !s.Of(run.FlowCell, run.Position) {
			without = append(without, fmt.Sprintf("%s (flow cell %s, position %s)", cmp.Or(run.ID, "without a name"), cmp.Or(run.FlowCell, "unknown"), cmp.Or(run.Position, "unknown")))
		}
		names = append(names, s.Aliases(run.FlowCell, run.Position)...)
	}
	if len(runs) > 0 && len(without) == len(runs) {
		return nil, fmt.Errorf("no row is of run %s: the rows are of %s: is it the sheet of another flow cell?", some(without), s.places())
	}
	if len(without) > 0 {
		warnings = append(warnings, "no row is of run "+some(without)+": its reads belong to no sample of the sheet")
	}
	var others []string
	for _, row := range s.rows {
		if row.alias != "" && !slices.Contains(names, row.alias) && !slices.Contains(others, row.alias) {
			others = append(others, row.alias)
		}
	}
	if len(others) > 0 {
		warnings = append(warnings, "aliases are of no run here: "+some(others))
	}
	if unknown := s.unknownTypes(); len(unknown) > 0 {
		warnings = append(warnings, "column type has "+some(unknown)+", which is taken for a sample: there are "+strings.Join(sheetTypes, ", "))
	}
	if len(s.ignored) > 0 {
		warnings = append(warnings, "columns are ignored: "+some(s.ignored))
	}
	return warnings, nil
}

// places names the flow cells and positions of the rows.
func (s *Sheet) places() string {
	var list []string
	for _, row := range s.rows {
		var place []string
		if row.flowCell != "" {
			place = append(place, "flow cell "+row.flowCell)
		}
		if row.position != "" {
			place = append(place, "position "+row.position)
		}
		if text := strings.Join(place, ", "); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return some(list)
}

// some is a short list for a message.
func some(list []string) string {
	const most = 6
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most-1], "; "), len(list)-most+1)
	}
	return strings.Join(list, "; ")
}

// Alias returns what the sample with a barcode is called in a run that is known by its
// flow cell and position. It is empty if the sheet doesn't name it.
func (s *Sheet) Alias(flowCell, position, barcode string) string {
	for _, row := range s.rows {
		if row.barcode == barcode && s.is(&row, flowCell, position) {
			return row.alias
		}
	}
	return ""
}

// Barcode is the barcode of an alias in a run; empty: the sheet has none.
func (s *Sheet) Barcode(flowCell, position, alias string) string {
	for _, row := range s.rows {
		if row.alias == alias && s.is(&row, flowCell, position) {
			return row.barcode
		}
	}
	return ""
}
