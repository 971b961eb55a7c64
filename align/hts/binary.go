package hts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/align/hts/internal/bam"
	"github.com/porestream/porestream/align/hts/internal/blocks"
	"github.com/porestream/porestream/textfile"
)

// binaryReader reads the records of BAM (SAM specification 4.2).
type binaryReader struct {
	in     io.Reader      // decompressed
	blocks *blocks.Reader // what in is, too; nil: of CRAM
	header *sam.Header
	tail   *textfile.Tail // nil: in itself reports a file that is cut off
	part   bool           // only chunks are read, so the end isn't

	reuse  bool // memory and seq are those of the last record
	memory []byte
	seq    []sam.Doublet
}

// ErrCut says that a BAM file ends without the block that marks its end. Such a file may end between
// two records, which nothing else shows. It is an [io.ErrUnexpectedEOF].
var ErrCut error = cutError{}

type cutError struct{}

func (cutError) Error() string {
	return "the file is cut off: the block that ends a BAM file is missing; write or copy it again"
}

func (cutError) Unwrap() error { return io.ErrUnexpectedEOF }

const bamMagic = "BAM\x01"

// readBinary reads a header.
func readBinary(r io.Reader, decompressors int) (*binaryReader, Lines, error) {
	b := &binaryReader{tail: textfile.NewTail(r)}
	var below io.Reader = b.tail
	if s, ok := r.(io.Seeker); ok {
		below = struct {
			io.Reader
			io.Seeker
		}{b.tail, s}
	}
	in, err := blocks.NewReader(below, decompressors)
	if err != nil {
		return nil, nil, err
	}
	b.in, b.blocks = in, in
	lines, err := b.readHeader()
	if err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	return b, lines, nil
}

// readCRAM reads the header of a CRAM file, whose reader gives it as BAM.
func readCRAM(r io.Reader, o cram.Options) (*binaryReader, Lines, error) {
	b := &binaryReader{in: cram.NewReader(r, o)}
	lines, err := b.readHeader()
	return b, lines, err
}

func (b *binaryReader) readHeader() (Lines, error) {
	lines, err := b.parseHeader()
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.ErrUnexpectedEOF
	}
	return lines, err
}

func (b *binaryReader) parseHeader() (Lines, error) {
	if magic, err := b.bytes(len(bamMagic)); err != nil {
		return nil, err
	} else if string(magic) != bamMagic {
		return nil, errors.New("it doesn't begin as BAM does")
	}
	size, err := b.length()
	if err != nil {
		return nil, err
	}
	text, err := b.bytes(size)
	if err != nil {
		return nil, err
	}
	count, err := b.length()
	if err != nil {
		return nil, err
	}
	refs := []*sam.Reference{} // none is not the same as not known
	for range count {
		if size, err = b.length(); err != nil {
			return nil, err
		}
		name, err := b.bytes(size)
		if err != nil {
			return nil, err
		}
		if size < 2 || name[size-1] != 0 {
			return nil, errors.New("a reference has no name")
		}
		length, err := b.length()
		if err != nil {
			return nil, err
		}
		ref, err := sam.NewReference(string(name[:size-1]), "", "", length, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("reference %q of %d bases: %w", clip(string(name[:size-1])), length, err)
		}
		refs = append(refs, ref)
	}
	lines := splitLines(string(text))
	b.header, err = lines.parse(refs)
	return lines, err
}

// length reads a number that can't be negative.
func (b *binaryReader) length() (int, error) {
	n, err := b.bytes(4)
	if err != nil {
		return 0, err
	}
	if size := int32(binary.LittleEndian.Uint32(n)); size >= 0 {
		return int(size), nil
	}
	return 0, errors.New("the header has a negative length")
}

// bytes reads n bytes, and holds no more memory than there are bytes if that is a lot.
func (b *binaryReader) bytes(n int) ([]byte, error) {
	if n <= 1<<20 {
		out := slices.Grow(b.memory[:0], n)[:n]
		if b.reuse {
			b.memory = out
		}
		_, err := io.ReadFull(b.in, out)
		return out, err
	}
	var out bytes.Buffer
	got, err := io.CopyN(&out, b.in, int64(n))
	if errors.Is(err, io.EOF) && got > 0 {
		err = io.ErrUnexpectedEOF
	}
	return out.Bytes(), err
}

// fixed is the size of a record's fields of fixed size.
const fixed = 32

func (b *binaryReader) read() (*sam.Record, error) {
	head, err := b.bytes(4)
	if errors.Is(err, io.EOF) && !b.part && b.tail != nil && !b.tail.Ends() {
		err = ErrCut
	}
	if err != nil {
		return nil, err
	}
	size := int32(binary.LittleEndian.Uint32(head))
	if size < fixed {
		return nil, fmt.Errorf("a record of %d bytes", size)
	}
	body, err := b.bytes(int(size))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	rec, err := parseRecord(body, b.header.Refs(), b.seq[:0])
	if err == nil && b.reuse {
		b.seq = rec.Seq.Seq
	}
	return rec, err
}

// errShort says that what a record holds is longer than the record.
var errShort = errors.New("the record is shorter than it says")

// parseRecord reads a record, which keeps body and seq, memory for its bases. A CIGAR that stands in the tag CG is
// brought back to its place (section 4.2.2).
func parseRecord(body []byte, refs []*sam.Reference, seq []sam.Doublet) (*sam.Record, error) {
	order := binary.LittleEndian
	signed := func(at int) int { return int(int32(order.Uint32(body[at:]))) }
	rec := &sam.Record{
		Pos: signed(4), MapQ: body[9], Flags: sam.Flags(order.Uint16(body[14:])),
		MatePos: signed(24), TempLen: signed(28),
	}
	name, operations, bases := int(body[8]), int(order.Uint16(body[12:])), signed(16)
	if name < 1 || bases < 0 {
		return nil, errors.New("the record has a length that can't be")
	}
	rest := body[fixed:]
	if int64(name)+4*int64(operations)+(int64(bases)+1)/2+int64(bases) > int64(len(rest)) {
		return nil, errShort
	}
	if rest[name-1] != 0 {
		return nil, errors.New("the record's name has no end")
	}
	rec.Name, rest = string(rest[:name-1]), rest[name:]
	if operations > 0 {
		rec.Cigar = operationsOf(rest[:4*operations])
		rest = rest[4*operations:]
	}
	rec.Seq = sam.Seq{Length: bases, Seq: slices.Grow(seq, (bases+1)/2)[:(bases+1)/2]}
	for i := range rec.Seq.Seq {
		rec.Seq.Seq[i] = sam.Doublet(rest[i])
	}
	rest = rest[(bases+1)/2:]
	if bases > 0 {
		rec.Qual = rest[:bases:bases]
	}
	var err error
	if rec.AuxFields, err = auxFields(rest[bases:]); err != nil {
		return nil, err
	}
	if rec.Ref, err = referenceOf(signed(0), refs); err != nil {
		return nil, err
	}
	if rec.MateRef, err = referenceOf(signed(20), refs); err != nil {
		return nil, err
	}
	return rec, restoreCigar(rec)
}

func referenceOf(number int, refs []*sam.Reference) (*sam.Reference, error) {
	switch {
	case number == -1:
		return nil, nil //nolint:nilnil // a record need not be aligned
	case number < -1 || number >= len(refs):
		return nil, fmt.Errorf("there is no reference %d", number)
	}
	return refs[number], nil
}

func operationsOf(b []byte) sam.Cigar {
	c := make(sam.Cigar, 0, len(b)/4)
	for ; len(b) >= 4; b = b[4:] {
		c = append(c, sam.CigarOp(binary.LittleEndian.Uint32(b)))
	}
	return c
}

// auxFields cuts the tags of a record apart.
func auxFields(b []byte) (sam.AuxFields, error) {
	var list sam.AuxFields
	for len(b) > 0 {
		const head = 3 // name and type
		if len(b) < head {
			return nil, errors.New("the record's last tag has no end")
		}
		var size, skip int
		switch kind := b[2]; kind {
		case 'A':
			size = head + 1
		case 'Z', 'H':
			end := bytes.IndexByte(b[head:], 0)
			if end < 0 {
				return nil, fmt.Errorf("the tag %q has no end", b[:2])
			}
			size, skip = head+end, 1
		case 'B':
			if len(b) < head+5 || elementSize(b[head]) == 0 {
				return nil, fmt.Errorf("the tag %q is no array", b[:2])
			}
			size = head + 5 + int(binary.LittleEndian.Uint32(b[head+1:]))*elementSize(b[head])
		default:
			if size = elementSize(kind); size == 0 {
				return nil, fmt.Errorf("the tag %q has the type %q, which there isn't", b[:2], kind)
			}
			size += head
		}
		if size+skip > len(b) {
			return nil, fmt.Errorf("the tag %q is longer than the record", b[:2])
		}
		list = append(list, sam.Aux(b[:size:size]))
		b = b[size+skip:]
	}
	return list, nil
}

var longCigar = sam.NewTag("CG")

// restoreCigar brings a CIGAR of more operations than BAM can count back to its place.
func restoreCigar(rec *sam.Record) error {
	c := rec.Cigar
	if len(c) != 2 || c[0].Type() != sam.CigarSoftClipped || c[0].Len() != rec.Seq.Length || c[1].Type() != sam.CigarSkipped {
		return nil
	}
	i := slices.IndexFunc(rec.AuxFields, func(a sam.Aux) bool { return a.Tag() == longCigar })
	if i < 0 {
		return nil
	}
	tag := rec.AuxFields[i]
	const head = 8 // CG, B, I and the number of operations
	if len(tag) < head || tag[2] != 'B' || tag[3] != 'I' {
		return errors.New("the tag CG holds no CIGAR")
	}
	rec.Cigar = operationsOf(tag[head:])
	rec.AuxFields = slices.Delete(rec.AuxFields, i, i+1)
	return nil
}

// maxOps is the number of CIGAR operations that BAM's 16-bit field can count.
const maxOps = 1<<16 - 1

// appendBinary appends a record with its size. A CIGAR that is too long for its place goes
// to the tag CG, behind the others, as samtools does.
func appendBinary(b []byte, rec *sam.Record) ([]byte, error) {
	if rec.Name == "" || len(rec.Name) > maxName {
		return b, fmt.Errorf("a name of %d bytes: SAM allows 1 to %d", len(rec.Name), maxName)
	}
	if len(rec.Qual) > 0 && len(rec.Qual) != rec.Seq.Length {
		return b, fmt.Errorf("%d qualities for %d bases", len(rec.Qual), rec.Seq.Length)
	}
	cigar, long := rec.Cigar, sam.Cigar(nil)
	span, _ := cigar.Lengths()
	if len(cigar) > maxOps {
		cigar, long = sam.Cigar{sam.NewCigarOp(sam.CigarSoftClipped, rec.Seq.Length), sam.NewCigarOp(sam.CigarSkipped, span)}, cigar
	}
	order := binary.LittleEndian
	start := len(b)
	b = order.AppendUint32(b, 0) // the size, which follows
	b = order.AppendUint32(b, uint32(rec.Ref.ID()))
	b = order.AppendUint32(b, uint32(rec.Pos))
	b = append(b, byte(len(rec.Name)+1), rec.MapQ)
	b = order.AppendUint16(b, bam.Bin(rec.Pos, rec.Pos+max(1, span)))
	b = order.AppendUint16(b, uint16(len(cigar)))
	b = order.AppendUint16(b, uint16(rec.Flags))
	b = order.AppendUint32(b, uint32(rec.Seq.Length))
	b = order.AppendUint32(b, uint32(rec.MateRef.ID()))
	b = order.AppendUint32(b, uint32(rec.MatePos))
	b = order.AppendUint32(b, uint32(rec.TempLen))
	b = append(append(b, rec.Name...), 0)
	for _, op := range cigar {
		b = order.AppendUint32(b, uint32(op))
	}
	for _, d := range rec.Seq.Seq {
		b = append(b, byte(d))
	}
	if b = append(b, rec.Qual...); len(rec.Qual) == 0 {
		b = append(b, bytes.Repeat([]byte{0xff}, rec.Seq.Length)...)
	}
	for _, aux := range rec.AuxFields {
		if b = append(b, aux...); aux.Type() == 'Z' || aux.Type() == 'H' {
			b = append(b, 0)
		}
	}
	if long != nil {
		b = order.AppendUint32(append(b, "CGBI"...), uint32(len(long)))
		for _, op := range long {
			b = order.AppendUint32(b, uint32(op))
		}
	}
	if len(b)-start-4 > math.MaxInt32 {
		return b[:start], errors.New("the record is longer than BAM allows")
	}
	order.PutUint32(b[start:], uint32(len(b)-start-4))
	return b, nil
}

// binaryHeader is the header of a BAM file.
func binaryHeader(lines Lines, refs []*sam.Reference) []byte {
	var text []byte
	for _, line := range lines {
		text = append(append(text, line...), '\n')
	}
	order := binary.LittleEndian
	b := order.AppendUint32([]byte(bamMagic), uint32(len(text)))
	b = order.AppendUint32(append(b, text...), uint32(len(refs)))
	for _, ref := range refs {
		b = order.AppendUint32(b, uint32(len(ref.Name())+1))
		b = append(append(b, ref.Name()...), 0)
		b = order.AppendUint32(b, uint32(ref.Len()))
	}
	return b
}
