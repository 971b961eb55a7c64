package pod5

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/porestream/porestream/signal/vbz"
)

// Rows of a record batch, as in ONT's writer. All batches of a table but the last
// have the same number.
const (
	signalBatchRows = 100
	readsBatchRows  = 1000
)

var uuidType = &arrow.FixedSizeBinaryType{ByteWidth: 16}

// extension marks a field as one of POD5's own types, whose storage is the field's.
func extension(f arrow.Field, name string) arrow.Field {
	f.Metadata = arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{name, ""})
	return f
}

func column(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// table begins a table with the metadata that ties it to the file.
func (w *Writer) table(fields []arrow.Field) (*arrow.Schema, *ipc.FileWriter, error) {
	md := arrow.NewMetadata(
		[]string{"MINKNOW:file_identifier", "MINKNOW:software", "MINKNOW:pod5_version"},
		[]string{w.identifier, w.opts.Software, formatVersion})
	schema := arrow.NewSchema(fields, &md)
	file, err := ipc.NewFileWriter(w, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return nil, nil, fmt.Errorf("beginning a table: %w", err)
	}
	return schema, file, nil
}

// flush writes what a builder holds as a record batch.
func flush(b *array.RecordBuilder, file *ipc.FileWriter) error {
	batch := b.NewRecordBatch()
	defer batch.Release()
	return file.Write(batch)
}

// signalWriter writes the signal table.
type signalWriter struct {
	w     *Writer
	start int64
	rows  uint64
	build *array.RecordBuilder
	file  *ipc.FileWriter
	codec *vbz.Codec
	vbz   []byte
}

func newSignalWriter(w *Writer) (*signalWriter, error) {
	t := &signalWriter{w: w, start: w.pos, codec: vbz.NewCodec()}
	signal := extension(column("signal", arrow.BinaryTypes.LargeBinary), "minknow.vbz")
	if w.opts.Uncompressed {
		signal = column("signal", arrow.LargeListOf(arrow.PrimitiveTypes.Int16))
	}
	schema, file, err := w.table([]arrow.Field{
		extension(column("read_id", uuidType), "minknow.uuid"),
		signal,
		column("samples", arrow.PrimitiveTypes.Uint32),
	})
	if err != nil {
		return nil, err
	}
	t.file, t.build = file, array.NewRecordBuilder(memory.DefaultAllocator, schema)
	return t, w.err
}

func (t *signalWriter) add(id [16]byte, samples []int16) error {
	t.build.Field(0).(*array.FixedSizeBinaryBuilder).Append(id[:])
	switch b := t.build.Field(1).(type) {
	case *array.LargeListBuilder:
		b.Append(true)
		b.ValueBuilder().(*array.Int16Builder).AppendValues(samples, nil)
	case *array.BinaryBuilder:
		t.vbz = t.codec.Encode(t.vbz[:0], samples)
		b.Append(t.vbz)
	}
	t.build.Field(2).(*array.Uint32Builder).Append(uint32(len(samples)))
	if t.rows++; t.rows%signalBatchRows == 0 {
		return t.flush()
	}
	return nil
}

func (t *signalWriter) flush() error {
	if err := flush(t.build, t.file); err != nil {
		return fmt.Errorf("writing the %s: %w", signalTable, err)
	}
	return nil
}

func (t *signalWriter) close() error {
	if t.rows%signalBatchRows != 0 {
		if err := t.flush(); err != nil {
			return err
		}
	}
	t.build.Release()
	if err := t.file.Close(); err != nil {
		return fmt.Errorf("writing the %s: %w", signalTable, err)
	}
	return t.w.end(signalTable, t.start)
}

// writeRunInfo writes the run info table, in the order of the dictionary.
func (w *Writer) writeRunInfo() error {
	start := w.pos
	fields := runFields()
	columns := make([]arrow.Field, len(fields))
	for i, f := range fields {
		columns[i] = column(f.name, f.typ)
	}
	schema, file, err := w.table(columns)
	if err != nil {
		return err
	}
	build := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer build.Release()
	for _, id := range w.names.runs.values {
		for i, f := range fields {
			f.put(build.Field(i), w.runs[id])
		}
	}
	if len(w.names.runs.values) > 0 {
		err = flush(build, file)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fmt.Errorf("writing the %s: %w", runInfoTable, err)
	}
	return w.end(runInfoTable, start)
}

// writeReads writes the reads table from the scratch file.
func (w *Writer) writeReads() error {
	start := w.pos
	t, err := newReadsWriter(w)
	if err == nil {
		err = w.rows.replay(t.add)
	}
	if err == nil {
		err = t.close()
	}
	if err != nil {
		return fmt.Errorf("writing the %s: %w", readsTable, err)
	}
	return w.end(readsTable, start)
}

// readsWriter writes the reads table.
type readsWriter struct {
	columns []readColumn
	schema  *arrow.Schema
	file    *ipc.FileWriter
	build   []array.Builder
	dict    map[string]arrow.Array // by column; nil for others
	rows    int                    // in the builders
	batches int
}

func newReadsWriter(w *Writer) (*readsWriter, error) {
	t := &readsWriter{columns: readColumns(), dict: map[string]arrow.Array{
		"pore_type": w.names.poreTypes.array(), "end_reason": w.names.endReasons.array(), "run_info": w.names.runs.array(),
	}}
	var fields []arrow.Field
	for _, c := range t.columns {
		fields = append(fields, c.field)
		typ := c.field.Type
		if d, ok := typ.(*arrow.DictionaryType); ok {
			typ = d.IndexType
		}
		t.build = append(t.build, array.NewBuilder(memory.DefaultAllocator, typ))
	}
	var err error
	t.schema, t.file, err = w.table(fields)
	return t, err
}

func (t *readsWriter) add(r *readRow) error {
	for i, c := range t.columns {
		c.put(t.build[i], r)
	}
	if t.rows++; t.rows == readsBatchRows {
		return t.flush()
	}
	return nil
}

func (t *readsWriter) flush() error {
	columns := make([]arrow.Array, len(t.columns))
	for i, c := range t.columns {
		columns[i] = t.build[i].NewArray()
		if dict := t.dict[c.field.Name]; dict != nil {
			columns[i] = array.NewDictionaryArray(c.field.Type, columns[i], dict)
		}
	}
	batch := array.NewRecordBatch(t.schema, columns, int64(t.rows))
	defer batch.Release()
	t.rows = 0
	t.batches++
	return t.file.Write(batch)
}

// close writes the last rows. A table without any gets an empty batch, since the
// dictionaries come with the first.
func (t *readsWriter) close() error {
	if t.rows > 0 || t.batches == 0 {
		if err := t.flush(); err != nil {
			return err
		}
	}
	return t.file.Close()
}

// array returns the values as an Arrow array.
func (d *dictionary) array() arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(d.values, nil)
	return b.NewArray()
}

// readColumn is a column of the reads table and how a row fills it.
type readColumn struct {
	field arrow.Field
	put   func(b array.Builder, r *readRow)
}

// readColumns lists the columns of the reads table in the order of ONT's writer.
func readColumns() []readColumn {
	names := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	level := func(name string) readColumn {
		k := slices.IndexFunc(levelFields[:], func(f levelField) bool { return f.name == name })
		return readColumn{column(name, arrow.PrimitiveTypes.Float32), func(b array.Builder, r *readRow) {
			b.(*array.Float32Builder).Append(r.Levels[k])
		}}
	}
	float := func(name string, at func(*readRow) float32) readColumn {
		return readColumn{column(name, arrow.PrimitiveTypes.Float32), func(b array.Builder, r *readRow) { b.(*array.Float32Builder).Append(at(r)) }}
	}
	u32 := func(name string, at func(*readRow) uint32) readColumn {
		return readColumn{column(name, arrow.PrimitiveTypes.Uint32), func(b array.Builder, r *readRow) { b.(*array.Uint32Builder).Append(at(r)) }}
	}
	u64 := func(name string, at func(*readRow) uint64) readColumn {
		return readColumn{column(name, arrow.PrimitiveTypes.Uint64), func(b array.Builder, r *readRow) { b.(*array.Uint64Builder).Append(at(r)) }}
	}
	name := func(name string, at func(*readRow) int16) readColumn {
		// The builder is that of the indexes; the dictionary is known by now.
		return readColumn{column(name, names), func(b array.Builder, r *readRow) { b.(*array.Int16Builder).Append(at(r)) }}
	}
	return []readColumn{
		{extension(column("read_id", uuidType), "minknow.uuid"), func(b array.Builder, r *readRow) {
			b.(*array.FixedSizeBinaryBuilder).Append(r.ID[:])
		}},
		{column("signal", arrow.ListOf(arrow.PrimitiveTypes.Uint64)), func(b array.Builder, r *readRow) {
			l := b.(*array.ListBuilder)
			l.Append(true)
			for i := range uint64(r.Rows) {
				l.ValueBuilder().(*array.Uint64Builder).Append(r.FirstRow + i)
			}
		}},
		u32("read_number", func(r *readRow) uint32 { return r.Number }),
		u64("start", func(r *readRow) uint64 { return r.Start }),
		float("median_before", func(r *readRow) float32 { return r.MedianBefore }),
		u64("num_minknow_events", func(r *readRow) uint64 { return r.Events }),
		level("tracked_scaling_scale"), level("tracked_scaling_shift"),
		level("predicted_scaling_scale"), level("predicted_scaling_shift"),
		u32("num_reads_since_mux_change", func(r *readRow) uint32 { return r.ReadsSinceMux }),
		level("time_since_mux_change"),
		u64("num_samples", func(r *readRow) uint64 { return r.Samples }),
		{column("channel", arrow.PrimitiveTypes.Uint16), func(b array.Builder, r *readRow) {
			b.(*array.Uint16Builder).Append(r.narrowChannel())
		}},
		{column("well", arrow.PrimitiveTypes.Uint8), func(b array.Builder, r *readRow) { b.(*array.Uint8Builder).Append(r.Well) }},
		name("pore_type", func(r *readRow) int16 { return r.PoreType }),
		float("calibration_offset", func(r *readRow) float32 { return r.Offset }),
		float("calibration_scale", func(r *readRow) float32 { return r.Scale }),
		name("end_reason", func(r *readRow) int16 { return r.EndReason }),
		{column("end_reason_forced", arrow.FixedWidthTypes.Boolean), func(b array.Builder, r *readRow) { b.(*array.BooleanBuilder).Append(r.Forced) }},
		name("run_info", func(r *readRow) int16 { return r.Run }),
		level("open_pore_level"), level("expected_open_pore_level"), level("selected_read_level"),
		u32("channel_32bit", func(r *readRow) uint32 { return r.Channel }),
	}
}
