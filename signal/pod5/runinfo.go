package pod5

import (
	"fmt"
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

// runField is one field of a run info and how to read it from a column.
type runField struct {
	name   string
	typ    arrow.Type
	assign func(r *RunInfo, a arrow.Array, row int) error
}

// runFields lists the run info fields of the specification; all of them are
// required. The same list reads the struct inside the reads table (versions 0 to
// 2) and the run info table (version 3 on).
func runFields() []runField {
	word := func(name string, at func(*RunInfo) *string) runField {
		return runField{name, arrow.STRING, func(r *RunInfo, a arrow.Array, row int) error {
			s, err := textAt(a, row)
			*at(r) = s
			return err
		}}
	}
	instant := func(name string, at func(*RunInfo) *time.Time) runField {
		return runField{name, arrow.TIMESTAMP, func(r *RunInfo, a arrow.Array, row int) error {
			unit := a.DataType().(*arrow.TimestampType).Unit
			*at(r) = a.(*array.Timestamp).Value(row).ToTime(unit).UTC()
			return nil
		}}
	}
	tags := func(name string, at func(*RunInfo) *map[string]string) runField {
		return runField{name, arrow.MAP, func(r *RunInfo, a arrow.Array, row int) (err error) {
			*at(r), err = tagsAt(a.(*array.Map), row)
			return err
		}}
	}
	level := func(name string, at func(*RunInfo) *int16) runField {
		return runField{name, arrow.INT16, func(r *RunInfo, a arrow.Array, row int) error {
			*at(r) = a.(*array.Int16).Value(row)
			return nil
		}}
	}
	return []runField{
		word("acquisition_id", func(r *RunInfo) *string { return &r.AcquisitionID }),
		instant("acquisition_start_time", func(r *RunInfo) *time.Time { return &r.AcquisitionStartTime }),
		level("adc_max", func(r *RunInfo) *int16 { return &r.ADCMax }),
		level("adc_min", func(r *RunInfo) *int16 { return &r.ADCMin }),
		tags("context_tags", func(r *RunInfo) *map[string]string { return &r.ContextTags }),
		word("experiment_name", func(r *RunInfo) *string { return &r.ExperimentName }),
		word("flow_cell_id", func(r *RunInfo) *string { return &r.FlowCellID }),
		word("flow_cell_product_code", func(r *RunInfo) *string { return &r.FlowCellProductCode }),
		word("protocol_name", func(r *RunInfo) *string { return &r.ProtocolName }),
		word("protocol_run_id", func(r *RunInfo) *string { return &r.ProtocolRunID }),
		instant("protocol_start_time", func(r *RunInfo) *time.Time { return &r.ProtocolStartTime }),
		word("sample_id", func(r *RunInfo) *string { return &r.SampleID }),
		{"sample_rate", arrow.UINT16, func(r *RunInfo, a arrow.Array, row int) error {
			r.SampleRate = a.(*array.Uint16).Value(row)
			if r.SampleRate == 0 {
				return fmt.Errorf("is 0 samples a second")
			}
			return nil
		}},
		word("sequencing_kit", func(r *RunInfo) *string { return &r.SequencingKit }),
		word("sequencer_position", func(r *RunInfo) *string { return &r.SequencerPosition }),
		word("sequencer_position_type", func(r *RunInfo) *string { return &r.SequencerPositionType }),
		word("software", func(r *RunInfo) *string { return &r.Software }),
		word("system_name", func(r *RunInfo) *string { return &r.SystemName }),
		word("system_type", func(r *RunInfo) *string { return &r.SystemType }),
		tags("tracking_id", func(r *RunInfo) *map[string]string { return &r.TrackingID }),
	}
}

// runInfoAt reads one run info. column finds a field's column by name.
func runInfoAt(fields []runField, column func(name string) (arrow.Array, error), row int) (*RunInfo, error) {
	r := new(RunInfo)
	for _, f := range fields {
		a, err := column(f.name)
		if err != nil {
			return nil, err
		}
		if a.DataType().ID() != f.typ {
			return nil, fmt.Errorf("field %q has type %s, not %s", f.name, a.DataType(), f.typ)
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

// readRunInfoTable reads all rows of the run info table, keyed by acquisition id.
// Where an id repeats, the first row counts, as in ONT's reader.
func readRunInfoTable(t *table) (map[string]*RunInfo, error) {
	runs := make(map[string]*RunInfo)
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
				if _, ok := runs[r.AcquisitionID]; !ok {
					runs[r.AcquisitionID] = r
				}
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
