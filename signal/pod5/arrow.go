package pod5

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/porestream/porestream/signal/internal/text"
)

// maxArrowMemory bounds what the Arrow library may allocate for one record batch
// or one table's dictionaries. Only the reads table is copied out of the file, a
// batch (about 100 kB for 1,000 reads) at a time; the bound is against invented
// lengths.
const maxArrowMemory = 256 << 20

// boundedAllocator lets Arrow allocate up to a budget and panics beyond it; Arrow
// has no other way to fail, and guard makes the panic an error.
type boundedAllocator struct {
	memory.GoAllocator
	taken atomic.Int64
}

var errTooLarge = fmt.Errorf("needs more than %d MiB of memory: its lengths are damaged", maxArrowMemory>>20)

// refill gives the allocator its whole budget again.
func (a *boundedAllocator) refill() { a.taken.Store(0) }

func (a *boundedAllocator) take(n int) {
	if n < 0 || n > maxArrowMemory || a.taken.Add(int64(n)) > maxArrowMemory {
		panic(errTooLarge)
	}
}

func (a *boundedAllocator) Allocate(size int) []byte {
	a.take(size)
	return a.GoAllocator.Allocate(size)
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.take(size)
	return a.GoAllocator.Reallocate(size, b)
}

// guard runs fn over bytes of a file. The Arrow and FlatBuffers libraries index
// without checking and report damage by panicking; guard makes that an error. A
// memory fault passes through to the owner of the mapping.
func guard(fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			panic(r)
		case error:
			if errors.Is(r, errTooLarge) {
				err = errTooLarge
				return
			}
			err = fmt.Errorf("damaged Arrow data (%s)", oneLine(r.Error()))
		default:
			err = fmt.Errorf("damaged Arrow data (%s)", oneLine(fmt.Sprint(r)))
		}
	}()
	return fn()
}

// oneLine keeps an error of a library on one line.
func oneLine(s string) string {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	return s
}

// table is an Arrow IPC file inside a POD5 file.
type table struct {
	what   contentType
	r      batches
	schema *arrow.Schema
	file   arrowFile
	mem    *boundedAllocator
}

// batches gives the record batches of a table: [ipc.FileReader], or [messages] of
// a table that is not finished.
type batches interface {
	NumRecords() int
	RecordBatchAt(i int) (arrow.RecordBatch, error)
}

// openTable opens an embedded table. A mapped table is not copied; Arrow's mapped
// reader can't hold dictionaries, so the reads table, which has them, is read
// batch by batch into memory instead.
func openTable(what contentType, file []byte, s section, mapped bool) (*table, error) {
	data := file[s.offset : s.offset+s.length : s.offset+s.length]
	mem := new(boundedAllocator)
	t := &table{what: what, mem: mem}
	verified, err := verifyArrow(data)
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", what, s.offset, err)
	}
	t.file = verified
	err = guard(func() (err error) {
		var r *ipc.FileReader
		if mapped {
			r, err = ipc.NewMappedFileReader(data, ipc.WithAllocator(mem), ipc.WithBodySizeLimit(0))
		} else {
			r, err = ipc.NewFileReader(bytes.NewReader(data), ipc.WithAllocator(mem), ipc.WithBodySizeLimit(maxArrowMemory))
		}
		if err != nil {
			return fmt.Errorf("damaged Arrow data (%s)", oneLine(err.Error()))
		}
		t.r, t.schema = r, r.Schema()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", what, s.offset, err)
	}
	return t, checkNames(t)
}

// checkNames refuses field names that occur twice or can't be quoted.
func checkNames(t *table) error {
	seen := make(map[string]bool)
	for _, f := range t.schema.Fields() {
		if err := text.Check(f.Name); err != nil {
			return fmt.Errorf("%s: field name %q %w", t.what, f.Name, err)
		}
		if seen[f.Name] {
			return fmt.Errorf("%s: field %q occurs twice", t.what, f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// batches returns the number of record batches.
func (t *table) batches() int { return t.r.NumRecords() }

// batch calls fn with record batch i, which is valid only during the call.
func (t *table) batch(i int, fn func(arrow.RecordBatch) error) error {
	if err := t.file.batch(i); err != nil {
		return err
	}
	return guard(func() error {
		t.mem.refill()
		b, err := t.r.RecordBatchAt(i)
		if err != nil {
			if errors.Is(err, errTooLarge) {
				return errTooLarge
			}
			return fmt.Errorf("damaged Arrow data (%s)", oneLine(err.Error()))
		}
		defer b.Release()
		return fn(b)
	})
}

// metadata returns a value of the schema's custom metadata.
func (t *table) metadata(key string) string {
	md := t.schema.Metadata()
	if i := md.FindKey(key); i >= 0 {
		return md.Values()[i]
	}
	return ""
}

// field returns the index of a field and checks its type; the index is negative
// when the field is absent.
func (t *table) field(name string, ok func(arrow.DataType) bool, want string) (int, error) {
	idx := t.schema.FieldIndices(name)
	if len(idx) == 0 {
		return -1, nil
	}
	typ := storageType(t.schema.Field(idx[0]).Type)
	if !ok(typ) {
		return 0, fmt.Errorf("%s: field %q has type %s, not %s", t.what, name, typ, want)
	}
	return idx[0], nil
}

// required is field for a field that must be there.
func (t *table) required(name string, ok func(arrow.DataType) bool, want string) (int, error) {
	i, err := t.field(name, ok, want)
	if err == nil && i < 0 {
		err = fmt.Errorf("%s: field %q is missing", t.what, name)
	}
	return i, err
}

// storageType unwraps extension types, so that it doesn't matter whether some
// other part of the program has registered minknow.uuid or minknow.vbz.
func storageType(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return ext.StorageType()
	}
	return t
}

// storage is storageType for an array.
func storage(a arrow.Array) arrow.Array {
	if ext, ok := a.(array.ExtensionArray); ok {
		return ext.Storage()
	}
	return a
}

// is returns a check for one primitive type.
func is(id arrow.Type) func(arrow.DataType) bool {
	return func(t arrow.DataType) bool { return t.ID() == id }
}

func isUUID(t arrow.DataType) bool {
	f, ok := t.(*arrow.FixedSizeBinaryType)
	return ok && f.ByteWidth == 16
}

func isRowList(t arrow.DataType) bool {
	l, ok := t.(*arrow.ListType)
	return ok && l.Elem().ID() == arrow.UINT64
}

// isDictionary returns a check for a dictionary with the given type of values.
func isDictionary(value arrow.Type) func(arrow.DataType) bool {
	return func(t arrow.DataType) bool {
		d, ok := t.(*arrow.DictionaryType)
		return ok && d.ValueType.ID() == value
	}
}
