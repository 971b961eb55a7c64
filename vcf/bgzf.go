package vcf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/flate"

	"github.com/porestream/porestream/textfile"
)

// bgzfBlock is how many bytes go into one BGZF block, as in htslib: with what incompressible data needs on top it
// stays below the 64 KiB that a block can have (SAM specification, section 4.1).
const bgzfBlock = 0xff00

// bgzfHeader begins a block: a gzip member with an extra field BC that holds the block's size less one.
var bgzfHeader = [18]byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C', 2, 0}

// Bgzip compresses text as BGZF blocks. Blocks stand for themselves: texts that were compressed by different Bgzips
// may be joined in any order. It is not safe for concurrent use.
type Bgzip struct {
	w   *flate.Writer
	buf bytes.Buffer
}

// NewBgzip returns a compressor with the given level of package flate; 6 is bgzip's default.
func NewBgzip(level int) (*Bgzip, error) {
	z := &Bgzip{}
	var err error
	if z.w, err = flate.NewWriter(&z.buf, level); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return z, nil
}

// Append appends text as blocks to dst.
func (z *Bgzip) Append(dst, text []byte) ([]byte, error) {
	for len(text) > 0 {
		n := min(len(text), bgzfBlock)
		z.buf.Reset()
		z.w.Reset(&z.buf)
		if _, err := z.w.Write(text[:n]); err != nil {
			return dst, fmt.Errorf("compressing: %w", err)
		}
		if err := z.w.Close(); err != nil {
			return dst, fmt.Errorf("compressing: %w", err)
		}
		begun := len(dst)
		dst = append(dst, bgzfHeader[:]...)
		dst = append(dst, z.buf.Bytes()...)
		dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(text[:n]))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		size := len(dst) - begun
		binary.LittleEndian.PutUint16(dst[begun+16:], uint16(size-1))
		text = text[n:]
	}
	return dst, nil
}

// AppendBgzipEnd appends the empty block that ends a BGZF file and shows that it is whole.
func AppendBgzipEnd(dst []byte) []byte {
	return append(dst, textfile.BGZFEnd...)
}
