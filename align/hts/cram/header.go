package cram

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/porestream/porestream/align/hts/cram/codec"
)

// header is what records need of a file's header.
type header struct {
	text       []byte
	references []reference
	groups     []string // names of read groups
}

// reference is a sequence that reads are aligned to.
type reference struct {
	name   string
	length int
	sum    []byte // MD5; nil: not known
}

// readHeader reads the block that holds a header's text.
func readHeader(block []byte) (*header, error) {
	s := newStream(block)
	h := &header{text: bytes.TrimRight(s.take(int(s.int32())), "\x00")}
	if s.fail.err != nil {
		return nil, s.fail.err
	}
	for line := range bytes.Lines(h.text) {
		fields := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
		field := func(name string) string {
			for _, f := range fields[1:] {
				if value, ok := strings.CutPrefix(f, name+":"); ok {
					return value
				}
			}
			return ""
		}
		switch fields[0] {
		case "@RG":
			h.groups = append(h.groups, field("ID"))
		case "@SQ":
			length, err := strconv.ParseInt(field("LN"), 10, 32)
			if err != nil || length < 1 || field("SN") == "" {
				return nil, fmt.Errorf("the header has a reference sequence %q of length %q", field("SN"), field("LN"))
			}
			r := reference{name: field("SN"), length: int(length)}
			if sum, err := hex.DecodeString(field("M5")); err == nil && len(sum) == 16 {
				r.sum = sum
			}
			h.references = append(h.references, r)
		}
	}
	if len(h.text) > 0 && h.text[len(h.text)-1] != '\n' {
		h.text = append(h.text, '\n')
	}
	return h, nil
}

// endOfHeader returns the last bytes at the start of a file that belong to its header: writers leave zeros
// behind them, as space for a longer header. If the header is faulty, it returns all bytes, and decoding
// reports the fault.
func endOfHeader(part []byte) []byte {
	v, err := readVersion(part)
	if err != nil {
		return part
	}
	body := part[definitionSize:]
	c, err := v.readFirst(body)
	if c == nil || err != nil {
		return part
	}
	s := newStream(body[c.head:])
	block := readBlockHead(s)
	data := s.take(int(block.packed))
	end := data[max(0, len(data)-sumSize):]
	switch {
	case v.summed():
		end = s.take(sumSize)
	case block.method == codec.Raw:
		text := newStream(data)
		end = text.take(int(text.int32()))
		end = end[max(0, len(end)-1):]
		if text.fail.err != nil && len(data) > 0 {
			return part
		}
	}
	if s.fail.err != nil {
		return part
	}
	return end
}

// appendBAM appends the header as BAM has it (SAM specification 4.2).
func (h *header) appendBAM(b []byte) ([]byte, error) {
	order := binary.LittleEndian
	if len(h.text) > math.MaxInt32 {
		return b, errors.New("the header is longer than BAM allows")
	}
	b = order.AppendUint32(append(b, "BAM\x01"...), uint32(len(h.text)))
	b = order.AppendUint32(append(b, h.text...), uint32(len(h.references)))
	for _, r := range h.references {
		b = order.AppendUint32(b, uint32(len(r.name)+1))
		b = append(append(b, r.name...), 0)
		b = order.AppendUint32(b, uint32(r.length))
	}
	return b, nil
}
