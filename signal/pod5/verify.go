package pod5

import (
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Problem: the Arrow library believes its FlatBuffers metadata. An offset that
// leads out of a buffer makes it panic, which guard catches, but a flipped bit in
// a vector's length makes it allocate gigabytes, which nothing catches.
//
// Strategy: before the library sees an embedded file, walk the same metadata with
// the same FlatBuffers runtime and check every length against the bytes there
// are, and before it sees a record batch, the batch's message. The walk allocates
// nothing.
//
// Consequences: what remains for guard are panics. Tables may be shared by design
// of FlatBuffers, so that a small buffer could unfold into a huge tree; as honest
// writers don't share the tables concerned, the walk allows no more of them than
// fit into the buffer side by side. Arrow features that POD5 doesn't use, and
// whose lengths would need more checks, are refused.

// Slots of the FlatBuffers tables in Arrow's File.fbs, Schema.fbs and Message.fbs.
const (
	footerSchema       = 6
	footerDictionaries = 8
	footerBatches      = 10
	footerMetadata     = 12

	schemaFields   = 6
	schemaMetadata = 8
	schemaFeatures = 10

	fieldTypeType = 8
	fieldChildren = 14
	fieldMetadata = 16

	messageHeaderType = 6
	messageHeader     = 8
	messageMetadata   = 12

	dictionaryData = 6

	batchNodes       = 6
	batchBuffers     = 8
	batchCompression = 10
	batchVariadic    = 12
)

// Values of the unions Type and MessageHeader.
const (
	typeUnion         = 14
	typeLargeList     = 21 // later types: run-end encoding and views
	headerDictionary  = 2
	headerRecordBatch = 3
)

const (
	blockSize    = 24 // struct Block: offset, metadata length, padding, body length
	nodeSize     = 16 // struct FieldNode
	bufferSize   = 16 // struct Buffer
	maxNesting   = 16 // of fields; POD5 needs 4
	arrowMagic   = "ARROW1"
	arrowTail    = 4 + len(arrowMagic)
	continuation = 0xffffffff
)

var errDamaged = errors.New("damaged: a length or offset in its metadata leads out of it")

// arrowFile is a verified embedded file.
type arrowFile struct {
	data    []byte
	batches []byte // the blocks of its record batches
}

// verifyArrow checks the metadata of an Arrow IPC file and of its dictionaries.
func verifyArrow(data []byte) (f arrowFile, err error) {
	defer recoverDamage(&err)
	if len(data) < 8+arrowTail || string(data[:len(arrowMagic)]) != arrowMagic || string(data[len(data)-len(arrowMagic):]) != arrowMagic {
		return f, errors.New("is not an Arrow IPC file")
	}
	size := int64(int32(binary.LittleEndian.Uint32(data[len(data)-arrowTail:])))
	end := len(data) - arrowTail
	if size < 8 || size > int64(end-8) {
		return f, fmt.Errorf("damaged: its footer of %d bytes doesn't fit", size)
	}
	w := newWalk(data[end-int(size) : end])
	root := w.root()
	w.schema(w.child(root, footerSchema))
	w.keyValues(root, footerMetadata)
	f = arrowFile{data: data, batches: w.vector(root, footerBatches, blockSize)}
	dictionaries := w.vector(root, footerDictionaries, blockSize)
	for i := range len(dictionaries) / blockSize {
		if err := f.message(dictionaries, i, headerDictionary); err != nil {
			return f, fmt.Errorf("dictionary %d: %w", i, err)
		}
	}
	return f, nil
}

// batch checks the metadata of record batch i.
func (f arrowFile) batch(i int) (err error) {
	defer recoverDamage(&err)
	return f.message(f.batches, i, headerRecordBatch)
}

func (f arrowFile) message(blocks []byte, i int, want byte) error {
	block := blocks[i*blockSize:]
	offset := int64(binary.LittleEndian.Uint64(block))
	length := int64(int32(binary.LittleEndian.Uint32(block[8:])))
	if offset < 0 || length < 8 || offset > int64(len(f.data)) || length > int64(len(f.data))-offset {
		return errDamaged
	}
	meta := f.data[offset : offset+length]
	if binary.LittleEndian.Uint32(meta) == continuation {
		meta = meta[4:]
	}
	w := newWalk(meta[4:])
	root := w.root()
	w.keyValues(root, messageMetadata)
	if got := root.GetByteSlot(messageHeaderType, 0); got != want {
		return fmt.Errorf("is a message of kind %d, not %d", got, want)
	}
	batch := w.child(root, messageHeader)
	if want == headerDictionary {
		batch = w.child(batch, dictionaryData)
	}
	w.vector(batch, batchNodes, nodeSize)
	w.vector(batch, batchBuffers, bufferSize)
	if len(w.vector(batch, batchVariadic, 8)) > 0 {
		return errors.New("uses Arrow view types, which are not part of POD5")
	}
	if batch.Offset(batchCompression) != 0 {
		return errors.New("uses Arrow's own compression, which is not part of POD5")
	}
	return nil
}

// walk follows FlatBuffers metadata. Its methods panic on damage; recoverDamage
// turns that into an error.
type walk struct {
	buf    []byte
	tables int // that may still be visited
}

func newWalk(buf []byte) *walk { return &walk{buf: buf, tables: len(buf) / 8} }

// recoverDamage ends a walk over damaged metadata. A memory fault is not damage
// and passes on.
func recoverDamage(err *error) {
	switch r := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		panic(r)
	case unsupportedType:
		*err = fmt.Errorf("uses Arrow type %d, which is not part of POD5", byte(r))
	default:
		*err = errDamaged
	}
}

type unsupportedType byte

func (w *walk) visit() {
	if w.tables--; w.tables < 0 {
		panic(errDamaged)
	}
}

func (w *walk) root() *flatbuffers.Table {
	w.visit()
	return &flatbuffers.Table{Bytes: w.buf, Pos: flatbuffers.GetUOffsetT(w.buf)}
}

// child returns the table in a slot, which must be there.
func (w *walk) child(t *flatbuffers.Table, slot flatbuffers.VOffsetT) *flatbuffers.Table {
	w.visit()
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		panic(errDamaged)
	}
	return &flatbuffers.Table{Bytes: w.buf, Pos: t.Indirect(o + t.Pos)}
}

// vector returns the elements of the vector in a slot, nothing when it is absent.
func (w *walk) vector(t *flatbuffers.Table, slot flatbuffers.VOffsetT, elem int) []byte {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return nil
	}
	first, n := int(t.Vector(o)), t.VectorLen(o)
	if n < 0 || n > (len(w.buf)-first)/elem {
		panic(errDamaged)
	}
	return w.buf[first : first+n*elem]
}

// each calls fn with the tables of the vector in a slot.
func (w *walk) each(t *flatbuffers.Table, slot flatbuffers.VOffsetT, fn func(*flatbuffers.Table)) {
	n := len(w.vector(t, slot, 4)) / 4
	for i := range n {
		w.visit()
		first := t.Vector(flatbuffers.UOffsetT(t.Offset(slot)))
		fn(&flatbuffers.Table{Bytes: w.buf, Pos: t.Indirect(first + flatbuffers.UOffsetT(4*i))})
	}
}

func (w *walk) keyValues(t *flatbuffers.Table, slot flatbuffers.VOffsetT) {
	w.each(t, slot, func(*flatbuffers.Table) {})
}

func (w *walk) schema(t *flatbuffers.Table) {
	w.keyValues(t, schemaMetadata)
	w.vector(t, schemaFeatures, 8)
	w.each(t, schemaFields, func(f *flatbuffers.Table) { w.field(f, 0) })
}

func (w *walk) field(t *flatbuffers.Table, depth int) {
	if depth == maxNesting {
		panic(errDamaged)
	}
	if typ := t.GetByteSlot(fieldTypeType, 0); typ == typeUnion || typ > typeLargeList {
		panic(unsupportedType(typ))
	}
	w.keyValues(t, fieldMetadata)
	w.each(t, fieldChildren, func(c *flatbuffers.Table) { w.field(c, depth+1) })
}
