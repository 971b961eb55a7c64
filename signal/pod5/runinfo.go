package pod5

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/porestream/porestream/signal/internal/text"
)

// RunInfo describes one acquisition, with the names of the format. Text that the
// writer left out is empty.
type RunInfo struct {
	AcquisitionID         string
	AcquisitionStartTime  time.Time // UTC
	ADCMax, ADCMin        int16
	ContextTags           map[string]string
	ExperimentName        string
	FlowCellID            string
	FlowCellProductCode   string
	ProtocolName          string
	ProtocolRunID         string
	ProtocolStartTime     time.Time // UTC
	SampleID              string
	SampleRate            uint16 // Hz
	SequencingKit         string
	SequencerPosition     string
	SequencerPositionType string
	Software              string
	SystemName            string
	SystemType            string
	TrackingID            map[string]string
}

// runField is one field of a run info and how it gets from a column and into one.
type runField struct {
	name   string
	typ    arrow.DataType
	assign func(r *RunInfo, a arrow.Array, row int) error
	put    func(b array.Builder, r *RunInfo)
	equal  func(a, b *RunInfo) bool
	check  func(r *RunInfo) error
}

// runFields lists the run info fields of the specification; all of them are
// required. The same list reads the struct inside the reads table (versions 0 to
// 2) and the run info table (version 3 on), and writes the latter.
func runFields() []runField {
	return []runField{
		wordField("acquisition_id", func(r *RunInfo) *string { return &r.AcquisitionID }),
		timeField("acquisition_start_time", func(r *RunInfo) *time.Time { return &r.AcquisitionStartTime }),
		adcField("adc_max", func(r *RunInfo) *int16 { return &r.ADCMax }),
		adcField("adc_min", func(r *RunInfo) *int16 { return &r.ADCMin }),
		tagsField("context_tags", func(r *RunInfo) *map[string]string { return &r.ContextTags }),
		wordField("experiment_name", func(r *RunInfo) *string { return &r.ExperimentName }),
		wordField("flow_cell_id", func(r *RunInfo) *string { return &r.FlowCellID }),
		wordField("flow_cell_product_code", func(r *RunInfo) *string { return &r.FlowCellProductCode }),
		wordField("protocol_name", func(r *RunInfo) *string { return &r.ProtocolName }),
		wordField("protocol_run_id", func(r *RunInfo) *string { return &r.ProtocolRunID }),
		timeField("protocol_start_time", func(r *RunInfo) *time.Time { return &r.ProtocolStartTime }),
		wordField("sample_id", func(r *RunInfo) *string { return &r.SampleID }),
		rateField(),
		wordField("sequencing_kit", func(r *RunInfo) *string { return &r.SequencingKit }),
		wordField("sequencer_position", func(r *RunInfo) *string { return &r.SequencerPosition }),
		wordField("sequencer_position_type", func(r *RunInfo) *string { return &r.SequencerPositionType }),
		wordField("software", func(r *RunInfo) *string { return &r.Software }),
		wordField("system_name", func(r *RunInfo) *string { return &r.SystemName }),
		wordField("system_type", func(r *RunInfo) *string { return &r.SystemType }),
		tagsField("tracking_id", func(r *RunInfo) *map[string]string { return &r.TrackingID }),
	}
}

func wordField(name string, at func(*RunInfo) *string) runField {
	return runField{
		name: name, typ: arrow.BinaryTypes.String,
		assign: func(r *RunInfo, a arrow.Array, row int) error {
			s, err := textAt(a, row)
			*at(r) = s
			return err
		},
		put:   func(b array.Builder, r *RunInfo) { b.(*array.StringBuilder).Append(*at(r)) },
		equal: func(a, b *RunInfo) bool { return *at(a) == *at(b) },
		check: func(r *RunInfo) error { return text.Check(*at(r)) },
	}
}

// timeField is a time, which the format keeps to the millisecond.
func timeField(name string, at func(*RunInfo) *time.Time) runField {
	milliseconds := func(r *RunInfo) int64 {
		if at(r).IsZero() {
			return 0
		}
		return at(r).UnixMilli()
	}
	return runField{
		name: name, typ: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"},
		assign: func(r *RunInfo, a arrow.Array, row int) error {
			unit := a.DataType().(*arrow.TimestampType).Unit
			*at(r) = a.(*array.Timestamp).Value(row).ToTime(unit).UTC()
			return nil
		},
		put: func(b array.Builder, r *RunInfo) {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(milliseconds(r)))
		},
		equal: func(a, b *RunInfo) bool { return milliseconds(a) == milliseconds(b) },
		check: func(*RunInfo) error { return nil },
	}
}

func adcField(name string, at func(*RunInfo) *int16) runField {
	return runField{
		name: name, typ: arrow.PrimitiveTypes.Int16,
		assign: func(r *RunInfo, a arrow.Array, row int) error {
			*at(r) = a.(*array.Int16).Value(row)
			return nil
		},
		put:   func(b array.Builder, r *RunInfo) { b.(*array.Int16Builder).Append(*at(r)) },
		equal: func(a, b *RunInfo) bool { return *at(a) == *at(b) },
		check: func(*RunInfo) error { return nil },
	}
}

func rateField() runField {
	positive := func(r *RunInfo) error {
		if r.SampleRate == 0 {
			return errors.New("is 0 samples a second")
		}
		return nil
	}
	return runField{
		name: "sample_rate", typ: arrow.PrimitiveTypes.Uint16,
		assign: func(r *RunInfo, a arrow.Array, row int) error {
			r.SampleRate = a.(*array.Uint16).Value(row)
			return positive(r)
		},
		put:   func(b array.Builder, r *RunInfo) { b.(*array.Uint16Builder).Append(r.SampleRate) },
		equal: func(a, b *RunInfo) bool { return a.SampleRate == b.SampleRate },
		check: positive,
	}
}

func tagsField(name string, at func(*RunInfo) *map[string]string) runField {
	return runField{
		name: name, typ: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String),
		assign: func(r *RunInfo, a arrow.Array, row int) (err error) {
			*at(r), err = tagsAt(a.(*array.Map), row)
			return err
		},
		put: func(b array.Builder, r *RunInfo) {
			m := b.(*array.MapBuilder)
			m.Append(true)
			keys, items := m.KeyBuilder().(*array.StringBuilder), m.ItemBuilder().(*array.StringBuilder)
			for _, k := range slices.Sorted(maps.Keys(*at(r))) {
				keys.Append(k)
				items.Append((*at(r))[k])
			}
		},
		equal: func(a, b *RunInfo) bool { return maps.Equal(*at(a), *at(b)) },
		check: func(r *RunInfo) error {
			for k, v := range *at(r) {
				if err := cmp.Or(text.Check(k), text.Check(v)); err != nil {
					return fmt.Errorf("has an entry %q that %w", text.Clip(k), err)
				}
			}
			return nil
		},
	}
}

// Check refuses a description that a file can't hold.
func (r *RunInfo) Check() error {
	for _, f := range runFields() {
		if err := f.check(r); err != nil {
			return fmt.Errorf("field %q %w", f.name, err)
		}
	}
	return nil
}

// Difference names a field in which two descriptions of a run differ, or returns
// nothing. Times are compared to the millisecond, which is what the format keeps.
func (r *RunInfo) Difference(o *RunInfo) string {
	for _, f := range runFields() {
		if !f.equal(r, o) {
			return f.name
		}
	}
	return ""
}

// runInfoAt reads one run info. column finds a field's column by name.
func runInfoAt(fields []runField, column func(name string) (arrow.Array, error), row int) (*RunInfo, error) {
	r := new(RunInfo)
	for _, f := range fields {
		a, err := column(f.name)
		if err != nil {
			return nil, err
		}
		if a.DataType().ID() != f.typ.ID() {
			return nil, fmt.Errorf("field %q has type %s, not %s", f.name, a.DataType(), f.typ.ID())
		}
		if a.IsNull(row) {
			continue // not recorded
		}
		if err := f.assign(r, a, row); err != nil {
			return nil, fmt.Errorf("field %q %w", f.name, err)
		}
	}
	if r.SampleRate == 0 {
		return nil, fmt.Errorf("field %q is null", "sample_rate")
	}
	return r, nil
}

// runTable is the rows of the run info table, and the first of each acquisition id.
type runTable struct {
	rows  []*RunInfo
	first map[string]int // row by id
}

// of returns the run that entry k of the reads table's dictionary names; the dictionary has that
// many entries. Where several rows have its id and they differ, the row with the entry's number is
// meant, as writers fill both in step. If the dictionary isn't like the table, of can't know which
// row is meant, which matters if the rates differ. nil: there is no such row.
func (t *runTable) of(id string, k, entries int) (*RunInfo, error) {
	first, ok := t.first[id]
	if !ok {
		return nil, nil //nolint:nilnil // the caller says what is missing
	}
	if entries == len(t.rows) && t.rows[k].AcquisitionID == id {
		return t.rows[k], nil
	}
	for i, r := range t.rows {
		if r.AcquisitionID == id && r.SampleRate != t.rows[first].SampleRate {
			return nil, fmt.Errorf("is %q, which the run info table has in rows %d and %d with %d and %d samples a second",
				text.Clip(id), first, i, t.rows[first].SampleRate, r.SampleRate)
		}
	}
	return t.rows[first], nil
}

// RunConflicts lists rows of the run info table that have one acquisition id and differ, a line
// for each that differs from the first of its id.
func (r *Reader) RunConflicts() []string {
	if r.runs == nil {
		return nil
	}
	var list []string
	for i, row := range r.runs.rows {
		first := r.runs.first[row.AcquisitionID]
		if field := r.runs.rows[first].Difference(row); field != "" {
			list = append(list, fmt.Sprintf("run info table: rows %d and %d are both run %q, but differ in field %q", first, i, text.Clip(row.AcquisitionID), field))
		}
	}
	return list
}

// readRunInfoTable reads all rows of the run info table.
func readRunInfoTable(t *table) (*runTable, error) {
	runs := &runTable{first: make(map[string]int)}
	fields := runFields()
	for i := range t.batches() {
		err := t.batch(i, func(b arrow.RecordBatch) error {
			column := func(name string) (arrow.Array, error) {
				idx := b.Schema().FieldIndices(name)
				if len(idx) == 0 {
					return nil, fmt.Errorf("field %q is missing", name)
				}
				return storage(b.Column(idx[0])), nil
			}
			for row := range int(b.NumRows()) {
				r, err := runInfoAt(fields, column, row)
				if err != nil {
					return fmt.Errorf("row %d: %w", row, err)
				}
				if _, ok := runs.first[r.AcquisitionID]; !ok {
					runs.first[r.AcquisitionID] = len(runs.rows)
				}
				runs.rows = append(runs.rows, r)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: batch %d: %w", t.what, i, err)
		}
	}
	return runs, nil
}

// textAt returns checked text that no longer refers to the file.
func textAt(a arrow.Array, row int) (string, error) {
	s := a.(*array.String).Value(row)
	if err := text.Check(s); err != nil {
		return "", fmt.Errorf("%w (%q)", err, text.Clip(s))
	}
	return string([]byte(s)), nil
}

// tagsAt returns a map of checked text.
func tagsAt(a *array.Map, row int) (map[string]string, error) {
	keys, ok := a.Keys().(*array.String)
	items, ok2 := a.Items().(*array.String)
	if !ok || !ok2 {
		return nil, fmt.Errorf("has type %s, not map<utf8, utf8>", a.DataType())
	}
	from, to := a.ValueOffsets(row)
	tags := make(map[string]string)
	for i := int(from); i < int(to); i++ {
		k, err := textAt(keys, i)
		if err != nil {
			return nil, fmt.Errorf("has a key that %w", err)
		}
		if items.IsNull(i) {
			tags[k] = ""
			continue
		}
		if tags[k], err = textAt(items, i); err != nil {
			return nil, fmt.Errorf("has, under %q, a value that %w", text.Clip(k), err)
		}
	}
	return tags, nil
}
