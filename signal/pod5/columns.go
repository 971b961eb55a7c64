package pod5

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// columns says where the reads table keeps its fields. An index is negative for
// an optional field that the file doesn't have.
type columns struct {
	// flat is true for version 3 and later; before, pore, calibration, end reason
	// and run info are dictionaries of structs.
	flat bool

	readID, signal, number, start, medianBefore int
	events, samples                             int
	wideChannel, readsSinceMux                  int
	levels                                      [len(levelFields)]int // of levelFields

	// flat
	channel, well, poreType, offset, scale, endReason, forced, runInfo int

	// struct
	pore, calibration, endReasonStruct int
}

// levelField is an optional field of one float.
type levelField struct {
	name string
	at   func(*Read) *float32
	// absent is the value in a file without the field, which is ONT's reader's.
	absent float32
}

var notRecorded = float32(math.NaN())

// levelFields are the optional fields of one float a read.
var levelFields = [...]levelField{
	{"open_pore_level", func(r *Read) *float32 { return &r.OpenPoreLevel }, notRecorded},
	{"expected_open_pore_level", func(r *Read) *float32 { return &r.ExpectedOpenPoreLevel }, notRecorded},
	{"selected_read_level", func(r *Read) *float32 { return &r.SelectedReadLevel }, notRecorded},
	{"tracked_scaling_scale", func(r *Read) *float32 { return &r.TrackedScaling.Scale }, notRecorded},
	{"tracked_scaling_shift", func(r *Read) *float32 { return &r.TrackedScaling.Shift }, notRecorded},
	{"predicted_scaling_scale", func(r *Read) *float32 { return &r.PredictedScaling.Scale }, notRecorded},
	{"predicted_scaling_shift", func(r *Read) *float32 { return &r.PredictedScaling.Shift }, notRecorded},
	{"time_since_mux_change", func(r *Read) *float32 { return &r.TimeSinceMuxChange }, 0},
}

// findColumns checks the schema of the reads table.
func findColumns(t *table) (columns, error) {
	var c columns
	c.flat = !t.schema.HasField("pore") && !t.schema.HasField("calibration")
	type want struct {
		at       *int
		name     string
		ok       func(arrow.DataType) bool
		typ      string
		optional bool
	}
	wants := []want{
		{&c.readID, "read_id", isUUID, "minknow.uuid", false},
		{&c.signal, "signal", isRowList, "list<uint64>", false},
		{&c.number, "read_number", is(arrow.UINT32), "uint32", false},
		{&c.start, "start", is(arrow.UINT64), "uint64", false},
		{&c.medianBefore, "median_before", is(arrow.FLOAT32), "float32", false},
		{&c.events, "num_minknow_events", is(arrow.UINT64), "uint64", !c.flat},
		{&c.samples, "num_samples", is(arrow.UINT64), "uint64", !c.flat},
		{&c.wideChannel, "channel_32bit", is(arrow.UINT32), "uint32", true},
		{&c.readsSinceMux, "num_reads_since_mux_change", is(arrow.UINT32), "uint32", true},
	}
	for i, f := range levelFields {
		wants = append(wants, want{&c.levels[i], f.name, is(arrow.FLOAT32), "float32", true})
	}
	if c.flat {
		wants = append(wants, []want{
			{&c.channel, "channel", is(arrow.UINT16), "uint16", false},
			{&c.well, "well", is(arrow.UINT8), "uint8", false},
			{&c.poreType, "pore_type", isDictionary(arrow.STRING), "dictionary of utf8", false},
			{&c.offset, "calibration_offset", is(arrow.FLOAT32), "float32", false},
			{&c.scale, "calibration_scale", is(arrow.FLOAT32), "float32", false},
			{&c.endReason, "end_reason", isDictionary(arrow.STRING), "dictionary of utf8", false},
			{&c.forced, "end_reason_forced", is(arrow.BOOL), "bool", false},
			{&c.runInfo, "run_info", isDictionary(arrow.STRING), "dictionary of utf8", false},
		}...)
	} else {
		wants = append(wants, []want{
			{&c.pore, "pore", isDictionary(arrow.STRUCT), "dictionary of struct", false},
			{&c.calibration, "calibration", isDictionary(arrow.STRUCT), "dictionary of struct", false},
			{&c.endReasonStruct, "end_reason", isDictionary(arrow.STRUCT), "dictionary of struct", false},
			{&c.runInfo, "run_info", isDictionary(arrow.STRUCT), "dictionary of struct", false},
		}...)
	}
	for _, w := range wants {
		find := t.required
		if w.optional {
			find = t.field
		}
		i, err := find(w.name, w.ok, w.typ)
		if err != nil {
			return columns{}, err
		}
		*w.at = i
	}
	return c, nil
}

// boundColumns are the columns of one record batch.
type boundColumns struct {
	flat       bool
	hasSamples bool

	readID       *array.FixedSizeBinary
	signal       *array.List
	signalRows   *array.Uint64
	number       *array.Uint32
	start        *array.Uint64
	medianBefore *array.Float32
	runInfo      *array.Dictionary
	// These are nil when the file doesn't have them.
	events        *array.Uint64
	samples       *array.Uint64
	wideChannel   *array.Uint32
	readsSinceMux *array.Uint32
	levels        [len(levelFields)]*array.Float32

	channel   *array.Uint16
	well      *array.Uint8
	poreType  *array.Dictionary
	offset    *array.Float32
	scale     *array.Float32
	endReason *array.Dictionary
	forced    *array.Boolean

	pore, calibration, endReasonStruct *dictStruct
}

// bind fetches the columns from a batch. Types were checked in the schema.
func (c *columns) bind(b arrow.RecordBatch) (*boundColumns, error) {
	out := &boundColumns{flat: c.flat, hasSamples: c.samples >= 0}
	for i := range int(b.NumCols()) {
		if n := b.Column(i).Len(); int64(n) != b.NumRows() {
			return nil, fmt.Errorf("field %q has %d of %d rows", b.ColumnName(i), n, b.NumRows())
		}
	}
	col := func(i int) arrow.Array { return storage(b.Column(i)) }
	out.readID = col(c.readID).(*array.FixedSizeBinary)
	out.signal = col(c.signal).(*array.List)
	out.signalRows = out.signal.ListValues().(*array.Uint64)
	out.number = col(c.number).(*array.Uint32)
	out.start = col(c.start).(*array.Uint64)
	out.medianBefore = col(c.medianBefore).(*array.Float32)
	out.runInfo = col(c.runInfo).(*array.Dictionary)
	if c.events >= 0 {
		out.events = col(c.events).(*array.Uint64)
	}
	if c.samples >= 0 {
		out.samples = col(c.samples).(*array.Uint64)
	}
	if c.wideChannel >= 0 {
		out.wideChannel = col(c.wideChannel).(*array.Uint32)
	}
	if c.readsSinceMux >= 0 {
		out.readsSinceMux = col(c.readsSinceMux).(*array.Uint32)
	}
	for i, at := range c.levels {
		if at >= 0 {
			out.levels[i] = col(at).(*array.Float32)
		}
	}
	if c.flat {
		out.channel = col(c.channel).(*array.Uint16)
		out.well = col(c.well).(*array.Uint8)
		out.poreType = col(c.poreType).(*array.Dictionary)
		out.offset = col(c.offset).(*array.Float32)
		out.scale = col(c.scale).(*array.Float32)
		out.endReason = col(c.endReason).(*array.Dictionary)
		out.forced = col(c.forced).(*array.Boolean)
		return out, nil
	}
	var err error
	if out.pore, err = newDictStruct("pore", col(c.pore), map[string]arrow.Type{
		"channel": arrow.UINT16, "well": arrow.UINT8, "pore_type": arrow.STRING,
	}); err != nil {
		return nil, err
	}
	if out.calibration, err = newDictStruct("calibration", col(c.calibration), map[string]arrow.Type{
		"offset": arrow.FLOAT32, "scale": arrow.FLOAT32,
	}); err != nil {
		return nil, err
	}
	out.endReasonStruct, err = newDictStruct("end_reason", col(c.endReasonStruct), map[string]arrow.Type{
		"name": arrow.STRING, "forced": arrow.BOOL,
	})
	return out, err
}

// read fills rd, all but its run, from row i. The read's signal rows are
// appended to rows, which is returned.
func (c *boundColumns) read(rd *Read, i int, rows []uint64) ([]uint64, error) {
	for _, f := range []struct {
		name string
		a    arrow.Array
	}{{"read_id", c.readID}, {"signal", c.signal}, {"read_number", c.number}, {"start", c.start}} {
		if f.a.IsNull(i) {
			return rows, fmt.Errorf("field %q is null", f.name)
		}
	}
	copy(rd.ID[:], c.readID.Value(i))
	from, to := c.signal.ValueOffsets(i)
	if from < 0 || to < from || to > int64(c.signalRows.Len()) {
		return rows, fmt.Errorf("field %q has entries %d to %d of %d", "signal", from, to, c.signalRows.Len())
	}
	first := len(rows)
	rows = append(rows, c.signalRows.Uint64Values()[from:to]...)
	rd.Rows = rows[first:len(rows):len(rows)]
	rd.Number = c.number.Value(i)
	rd.Start = c.start.Value(i)
	rd.MedianBefore = floatAt(c.medianBefore, i)
	for k, f := range levelFields {
		if *f.at(rd) = f.absent; c.levels[k] != nil {
			*f.at(rd) = floatAt(c.levels[k], i)
		}
	}
	if c.readsSinceMux != nil && c.readsSinceMux.IsValid(i) {
		rd.ReadsSinceMuxChange = c.readsSinceMux.Value(i)
	}
	if c.events != nil && c.events.IsValid(i) {
		rd.MinKNOWEvents = c.events.Value(i)
	}
	if c.samples != nil {
		if c.samples.IsNull(i) {
			return rows, fmt.Errorf("field %q is null", "num_samples")
		}
		rd.Samples = c.samples.Value(i)
	}
	if c.flat {
		return rows, c.readFlat(rd, i)
	}
	return rows, c.readStructs(rd, i)
}

func (c *boundColumns) readFlat(rd *Read, i int) (err error) {
	for _, f := range []struct {
		name string
		a    arrow.Array
	}{{"channel", c.channel}, {"well", c.well}, {"calibration_offset", c.offset}, {"calibration_scale", c.scale}} {
		if f.a.IsNull(i) {
			return fmt.Errorf("field %q is null", f.name)
		}
	}
	rd.Channel = uint32(c.channel.Value(i))
	if c.wideChannel != nil && c.wideChannel.IsValid(i) {
		rd.Channel = c.wideChannel.Value(i)
	}
	rd.Well = c.well.Value(i)
	rd.CalibrationOffset = c.offset.Value(i)
	rd.CalibrationScale = c.scale.Value(i)
	rd.EndReasonForced = c.forced.IsValid(i) && c.forced.Value(i)
	if rd.PoreType, err = dictText("pore_type", c.poreType, i); err != nil {
		return err
	}
	rd.EndReason, err = dictText("end_reason", c.endReason, i)
	return err
}

func (c *boundColumns) readStructs(rd *Read, i int) error {
	k, err := c.pore.entry(i)
	if err != nil {
		return err
	}
	rd.Channel = uint32(c.pore.field["channel"].(*array.Uint16).Value(k))
	rd.Well = c.pore.field["well"].(*array.Uint8).Value(k)
	if rd.PoreType, err = textAt(c.pore.field["pore_type"], k); err != nil {
		return fmt.Errorf("field %q %w", "pore", err)
	}
	if k, err = c.calibration.entry(i); err != nil {
		return err
	}
	rd.CalibrationOffset = c.calibration.field["offset"].(*array.Float32).Value(k)
	rd.CalibrationScale = c.calibration.field["scale"].(*array.Float32).Value(k)
	if k, err = c.endReasonStruct.entry(i); err != nil {
		return err
	}
	rd.EndReasonForced = c.endReasonStruct.field["forced"].(*array.Boolean).Value(k)
	if rd.EndReason, err = textAt(c.endReasonStruct.field["name"], k); err != nil {
		return fmt.Errorf("field %q %w", "end_reason", err)
	}
	return nil
}

// floatAt returns NaN for a null.
func floatAt(a *array.Float32, i int) float32 {
	if a.IsNull(i) {
		return float32(math.NaN())
	}
	return a.Value(i)
}

// dictText returns the text of row i of a dictionary, empty for null.
func dictText(name string, d *array.Dictionary, i int) (string, error) {
	if d.IsNull(i) {
		return "", nil
	}
	k := d.GetValueIndex(i)
	if k < 0 || k >= d.Dictionary().Len() {
		return "", fmt.Errorf("field %q is entry %d of %d", name, k, d.Dictionary().Len())
	}
	s, err := textAt(d.Dictionary(), k)
	if err != nil {
		return "", fmt.Errorf("field %q %w", name, err)
	}
	return s, nil
}

// dictStruct is a dictionary of structs: versions 0 to 2.
type dictStruct struct {
	name  string
	dict  *array.Dictionary
	field map[string]arrow.Array
}

func newDictStruct(name string, a arrow.Array, want map[string]arrow.Type) (*dictStruct, error) {
	d := &dictStruct{name: name, dict: a.(*array.Dictionary), field: make(map[string]arrow.Array)}
	s := d.dict.Dictionary().(*array.Struct)
	typ := s.DataType().(*arrow.StructType)
	for f, id := range want {
		i, ok := typ.FieldIdx(f)
		if !ok {
			return nil, fmt.Errorf("field %q has no part %q", name, f)
		}
		if got := s.Field(i).DataType(); got.ID() != id {
			return nil, fmt.Errorf("field %q: part %q has type %s, not %s", name, f, got, id)
		}
		d.field[f] = s.Field(i)
	}
	return d, nil
}

// entry returns the dictionary entry of row i.
func (d *dictStruct) entry(i int) (int, error) {
	if d.dict.IsNull(i) {
		return 0, fmt.Errorf("field %q is null", d.name)
	}
	k := d.dict.GetValueIndex(i)
	if k < 0 || k >= d.dict.Dictionary().Len() {
		return 0, fmt.Errorf("field %q is entry %d of %d", d.name, k, d.dict.Dictionary().Len())
	}
	return k, nil
}
