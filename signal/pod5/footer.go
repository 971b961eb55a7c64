package pod5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Signature is how every POD5 file begins and ends.
const Signature = "\x8bPOD\r\n\x1a\n"

const (
	footerMagic = "FOOTER\x00\x00"
	markerLen   = 16
	// headLen is the signature and the first section marker.
	headLen = len(Signature) + markerLen
	// tailLen is the footer's length, the last section marker and the signature.
	tailLen = 8 + markerLen + len(Signature)
)

// contentType says what an embedded file holds (ContentType in footer.fbs).
type contentType int16

const (
	readsTable contentType = iota
	signalTable
	readIDIndex
	otherIndex
	runInfoTable
)

func (c contentType) String() string {
	switch c {
	case readsTable:
		return "reads table"
	case signalTable:
		return "signal table"
	case readIDIndex:
		return "read id index"
	case otherIndex:
		return "index"
	case runInfoTable:
		return "run info table"
	}
	return fmt.Sprintf("content of type %d", int16(c))
}

// featherV2 is the only format of embedded files (Format in footer.fbs).
const featherV2 = 0

// footer is the file's table of contents.
type footer struct {
	fileIdentifier string
	software       string
	version        string
	tables         map[contentType]section
}

// section is where an embedded file lies.
type section struct{ offset, length int64 }

// readFooter checks the wrapper of the file and returns its table of contents.
func readFooter(file []byte) (footer, error) {
	if len(file) < headLen+len(footerMagic)+tailLen {
		if !bytes.HasPrefix(file, []byte(Signature)) {
			return footer{}, errors.New("byte 0: not a POD5 signature")
		}
		return footer{}, fmt.Errorf("byte %d: the file ends before any table: it is truncated or still being written", len(file))
	}
	if !bytes.HasPrefix(file, []byte(Signature)) {
		return footer{}, errors.New("byte 0: not a POD5 signature")
	}
	if !bytes.HasSuffix(file, []byte(Signature)) {
		return footer{}, fmt.Errorf("byte %d: no POD5 signature at the end: the file is truncated or still being written (pod5 recover may save its reads)", len(file)-len(Signature))
	}
	marker := file[len(Signature):headLen]
	end := len(file) - tailLen // of the footer
	if !bytes.Equal(file[end+8:end+8+markerLen], marker) {
		return footer{}, fmt.Errorf("byte %d: section marker differs from the first: the file is damaged", end+8)
	}
	length := int64(binary.LittleEndian.Uint64(file[end:]))
	if length < 8 || length > int64(end-headLen-len(footerMagic)) {
		return footer{}, fmt.Errorf("byte %d: footer length %d doesn't fit in the file", end, length)
	}
	start := end - int(length)
	if magic := file[start-len(footerMagic) : start]; string(magic) != footerMagic {
		return footer{}, fmt.Errorf("byte %d: footer doesn't begin with FOOTER", start-len(footerMagic))
	}
	f, err := parseFooter(file[start:end])
	if err != nil {
		return footer{}, fmt.Errorf("byte %d: footer: %w", start, err)
	}
	for what, s := range f.tables {
		if err := checkSection(file[:start-len(footerMagic)], marker, s); err != nil {
			return footer{}, fmt.Errorf("%s: %w", what, err)
		}
	}
	return f, nil
}

// checkSection checks that a section lies in the file before the footer, where
// Arrow needs it, and is followed by its padding and the section marker.
func checkSection(body, marker []byte, s section) error {
	switch {
	case s.offset < int64(headLen) || s.length < 0 || s.offset > int64(len(body)) || s.length > int64(len(body))-s.offset:
		return fmt.Errorf("footer places it at bytes %d to %d, outside the file's tables", s.offset, s.offset+s.length)
	case s.offset%8 != 0:
		return fmt.Errorf("byte %d: not aligned to 8 bytes", s.offset)
	}
	padded := (s.offset + s.length + 7) &^ 7
	if padded > int64(len(body)) || !bytes.HasPrefix(body[padded:], marker) {
		return fmt.Errorf("byte %d: no section marker after it: the file is damaged", padded)
	}
	return nil
}

// parseFooter decodes the FlatBuffers table Footer of footer.fbs. The
// FlatBuffers runtime trusts its input and panics on offsets that lead out of the
// buffer, which is how damage shows.
func parseFooter(buf []byte) (f footer, err error) {
	defer recoverDamage(&err)
	root := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}
	text := func(slot flatbuffers.VOffsetT) string {
		if o := root.Offset(slot); o != 0 {
			return string(root.ByteVector(flatbuffers.UOffsetT(o) + root.Pos))
		}
		return ""
	}
	f = footer{
		fileIdentifier: text(4),
		software:       text(6),
		version:        text(8),
		tables:         make(map[contentType]section),
	}
	o := flatbuffers.UOffsetT(root.Offset(10))
	if o == 0 {
		return footer{}, errors.New("lists no tables")
	}
	first, n := root.Vector(o), root.VectorLen(o)
	if n > len(buf)/4 {
		return footer{}, fmt.Errorf("damaged: claims %d tables", n)
	}
	for i := range n {
		var e flatbuffers.Table
		e.Bytes = buf
		e.Pos = root.Indirect(first + flatbuffers.UOffsetT(4*i))
		s := section{offset: e.GetInt64Slot(4, 0), length: e.GetInt64Slot(6, 0)}
		format := e.GetInt16Slot(8, 0)
		what := contentType(e.GetInt16Slot(10, 0))
		if what != readsTable && what != signalTable && what != runInfoTable {
			continue // indexes repeat what the tables say
		}
		if format != featherV2 {
			return footer{}, fmt.Errorf("%s is in unknown format %d", what, format)
		}
		if _, dup := f.tables[what]; dup {
			return footer{}, fmt.Errorf("lists more than one %s", what)
		}
		f.tables[what] = s
	}
	for _, what := range []contentType{readsTable, signalTable} {
		if _, ok := f.tables[what]; !ok {
			return footer{}, fmt.Errorf("lists no %s", what)
		}
	}
	return f, nil
}
