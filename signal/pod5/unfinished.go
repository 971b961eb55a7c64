package pod5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/porestream/porestream/signal/internal/mapped"
)

// Names of the files that ONT's library keeps beside a POD5 file while it writes
// it, behind a dot and the file's identifier: the table of reads and that of
// runs, which it appends to the file when it closes it (file_writer.cpp).
const (
	readsSuffix   = ".tmp-reads"
	runInfoSuffix = ".tmp-run-info"
)

// ReadsPart and RunInfoPart name the files that lie beside an unfinished POD5
// file with an identifier.
func ReadsPart(identifier string) string   { return "." + identifier + readsSuffix }
func RunInfoPart(identifier string) string { return "." + identifier + runInfoSuffix }

// Part is the beginning of a file: what of it can be trusted.
type Part struct {
	Path string
	Size int64
}

// ErrUnfinished says that the requested part of the file has not been written yet.
var ErrUnfinished = errors.New("not written yet")

// Identifier returns the identifier of a POD5 file that is written only in part, or
// ErrUnfinished if not even its beginning is there.
func Identifier(file []byte) (string, error) {
	if err := checkHead(file); err != nil {
		return "", err
	}
	s, err := scanMessages(file[headLen:])
	if err != nil {
		return "", fmt.Errorf("%s: %w", signalTable, err)
	}
	t, err := s.table(signalTable)
	if err != nil {
		return "", err
	}
	id := t.metadata("MINKNOW:file_identifier")
	if len(id) != 36 {
		return "", fmt.Errorf("%s: file identifier %q", signalTable, id)
	}
	return id, nil
}

// IdentifierOf is [Identifier] of the first size bytes of a file at a path.
func IdentifierOf(path string, size int64) (id string, err error) {
	m, err := mapped.Open(path)
	if err != nil {
		return "", err
	}
	err = m.Do(func() error {
		id, err = Identifier(m.Bytes()[:min(int64(len(m.Bytes())), size)])
		return err
	})
	return id, errors.Join(err, m.Close())
}

func checkHead(file []byte) error {
	written := string(zeroless(file[:min(len(file), len(Signature))]))
	switch {
	case !strings.HasPrefix(Signature, written):
		return errors.New("byte 0: not a POD5 signature")
	case len(written) < len(Signature) || len(file) < headLen:
		return ErrUnfinished
	}
	return nil
}

// OpenUnfinished opens a POD5 file that is still being written: its beginning,
// which holds signal, and the beginnings of the two files beside it. The Reader
// shows the record batches that are whole. It does not follow the files as they
// grow; open them again. It returns ErrUnfinished when a table has not begun.
func OpenUnfinished(file, reads, runInfo Part) (*Reader, error) {
	r := new(Reader)
	var data [3][]byte
	for i, p := range []Part{file, reads, runInfo} {
		m, err := mapped.Open(p.Path)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.mappings = append(r.mappings, m)
		data[i] = m.Bytes()[:min(int64(len(m.Bytes())), p.Size)]
	}
	// A fault in any of them is caught by whichever is asked.
	r.mapping = r.mappings[0]
	if err := r.mapping.Do(func() error { return r.initUnfinished(data[0], data[1], data[2]) }); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Reader) initUnfinished(file, reads, runInfo []byte) error {
	if err := checkHead(file); err != nil {
		return err
	}
	tables := make(map[contentType]*table)
	for what, data := range map[contentType][]byte{signalTable: file[headLen:], readsTable: reads, runInfoTable: runInfo} {
		s, err := scanMessages(data)
		if err == nil {
			tables[what], err = s.table(what)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	id := tables[signalTable].metadata("MINKNOW:file_identifier")
	r.footer = footer{fileIdentifier: id, software: tables[signalTable].metadata("MINKNOW:software"), version: tables[signalTable].metadata("MINKNOW:pod5_version")}
	r.reads = tables[readsTable]
	return r.bind(tables[signalTable], tables[runInfoTable])
}

// SignalRows is the number of rows of the signal table. Reads of an unfinished
// file may refer to rows beyond it.
func (r *Reader) SignalRows() (rows uint64, err error) {
	t := r.signal.t
	if t.batches() == 0 {
		return 0, nil
	}
	last := t.batches() - 1
	err = r.mapping.Do(func() error {
		return t.batch(last, func(b arrow.RecordBatch) error {
			rows = uint64(last)*r.signal.batchRows + uint64(b.NumRows())
			return nil
		})
	})
	return rows, err
}

// messages are the whole messages at the beginning of an Arrow IPC file that is
// being written: before its footer, such a file is a stream of them.
type messages struct {
	arrowFile
	schema       block
	dictionaries []block
	// before holds, for each record batch, the number of dictionary messages that
	// lie before it.
	before []int
	mem    *boundedAllocator
}

// block is where a message lies, with its prefix.
type block struct{ offset, meta, body int }

const (
	messageBodyLength = 10
	headerSchema      = 1
	// prefixLen is a message's continuation marker and the length of its metadata.
	prefixLen = 8
)

// scanMessages finds the messages in the beginning of a file. What follows the
// last whole one is taken for not written yet, whatever it is: blocks that a file
// system has reserved are zeros.
func scanMessages(data []byte) (*messages, error) {
	const head = 8 // the magic, padded
	if len(data) < head {
		return nil, ErrUnfinished
	}
	written := string(zeroless(data[:len(arrowMagic)]))
	switch {
	case !strings.HasPrefix(arrowMagic, written):
		return nil, errors.New("is not an Arrow IPC file")
	case len(written) < len(arrowMagic):
		return nil, ErrUnfinished
	}
	m := &messages{arrowFile: arrowFile{data: data}, mem: new(boundedAllocator)}
	for at := head; ; {
		b, kind, ok := nextMessage(data, at)
		if !ok || !settled(data, b.end()) {
			break
		}
		var err error
		switch kind {
		case headerSchema:
			err = m.addSchema(b)
		case headerDictionary:
			err = m.addDictionary(b)
		case headerRecordBatch:
			m.batches = appendBlock(m.batches, b)
			m.before = append(m.before, len(m.dictionaries))
		default:
			err = fmt.Errorf("a message of kind %d", kind)
		}
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
		at = b.end()
	}
	if m.schema == (block{}) {
		return nil, ErrUnfinished
	}
	return m, nil
}

func (b block) end() int { return b.offset + b.meta + b.body }

// settled reports whether a message that ends at a place is written for certain:
// the file ends there, or something follows. Zeros that follow may be space that
// the writer reserved for data that it has not written yet, this message included.
func settled(data []byte, end int) bool {
	return end == len(data) || len(zeroless(data[end:min(len(data), end+prefixLen)])) > 0
}

// zeroless cuts zeros off the end.
func zeroless(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// nextMessage finds the message at a place; ok is false if it is not whole.
func nextMessage(data []byte, at int) (b block, kind byte, ok bool) {
	if len(data)-at < prefixLen || binary.LittleEndian.Uint32(data[at:]) != continuation {
		return b, 0, false
	}
	meta := int64(int32(binary.LittleEndian.Uint32(data[at+4:])))
	if meta < 8 || meta > int64(len(data)-at-prefixLen) {
		return b, 0, false
	}
	b = block{offset: at, meta: prefixLen + int(meta)}
	var body int64
	err := guard(func() error {
		w := newWalk(data[at+prefixLen : at+b.meta])
		root := w.root()
		kind = root.GetByteSlot(messageHeaderType, 0)
		body = root.GetInt64Slot(flatbuffers.VOffsetT(messageBodyLength), 0)
		return nil
	})
	if err != nil || body < 0 || body > math.MaxInt-7 {
		return b, 0, false
	}
	if body = (body + 7) &^ 7; body > int64(len(data)-at-b.meta) {
		return b, 0, false
	}
	b.body = int(body)
	return b, kind, true
}

func appendBlock(dst []byte, b block) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.offset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.meta)) // with the padding
	return binary.LittleEndian.AppendUint64(dst, uint64(b.body))
}

func (m *messages) addSchema(b block) (err error) {
	defer recoverDamage(&err)
	if m.schema != (block{}) {
		return errors.New("a second schema")
	}
	w := newWalk(m.data[b.offset+prefixLen : b.offset+b.meta])
	root := w.root()
	w.keyValues(root, messageMetadata)
	w.schema(w.child(root, messageHeader))
	m.schema = b
	return nil
}

func (m *messages) addDictionary(b block) (err error) {
	defer recoverDamage(&err)
	m.dictionaries = append(m.dictionaries, b)
	return m.message(appendBlock(nil, b), 0, headerDictionary)
}

// table makes a table of the messages.
func (m *messages) table(what contentType) (*table, error) {
	t := &table{what: what, r: m, file: m.arrowFile, mem: m.mem}
	err := guard(func() error {
		r, err := m.reader(m.schema)
		if err == nil {
			t.schema = r.Schema()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, checkNames(t)
}

func (m *messages) reader(blocks ...block) (*ipc.Reader, error) {
	r, err := ipc.NewReaderFromMessageReader(&blockReader{data: m.data, blocks: blocks}, ipc.WithAllocator(m.mem))
	if err != nil {
		return nil, fmt.Errorf("damaged Arrow data (%s)", oneLine(err.Error()))
	}
	return r, nil
}

// NumRecords is the number of whole record batches.
func (m *messages) NumRecords() int { return len(m.before) }

// RecordBatchAt returns record batch i; its bytes are those of the file.
func (m *messages) RecordBatchAt(i int) (arrow.RecordBatch, error) {
	at := m.batches[i*blockSize:]
	blocks := append([]block{m.schema}, m.dictionaries[:m.before[i]]...)
	blocks = append(blocks, block{
		offset: int(binary.LittleEndian.Uint64(at)), meta: int(binary.LittleEndian.Uint64(at[8:])), body: int(binary.LittleEndian.Uint64(at[16:])),
	})
	r, err := m.reader(blocks...)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if !r.Next() {
		return nil, errors.Join(errors.New("a record batch that can't be read"), r.Err())
	}
	b := r.RecordBatch()
	b.Retain()
	return b, nil
}

// blockReader reads messages without copying them.
type blockReader struct {
	data   []byte
	blocks []block
}

func (r *blockReader) Message() (*ipc.Message, error) {
	if len(r.blocks) == 0 {
		return nil, io.EOF
	}
	b := r.blocks[0]
	r.blocks = r.blocks[1:]
	return ipc.NewMessage(
		memory.NewBufferBytes(r.data[b.offset+prefixLen:b.offset+b.meta]),
		memory.NewBufferBytes(r.data[b.offset+b.meta:b.end()]),
	), nil
}

func (*blockReader) Retain()  {}
func (*blockReader) Release() {}
