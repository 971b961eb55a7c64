package squiggle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
)

// maxNPZBytes bounds an archive and each of its arrays: the largest table of 10-mers has
// 42 MB of names.
const maxNPZBytes = 64 << 20

// zipMagic begins an archive of NumPy's.
const zipMagic = "PK\x03\x04"

// readNPZ reads a table of levels as Uncalled4 has it: an archive of NumPy arrays, of
// which kmer (fixed-width text) and current.mean (32-bit floats) count.
func readNPZ(r io.Reader) (*Model, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxNPZBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxNPZBytes {
		return nil, fmt.Errorf("an archive of more than %d bytes: not a table of k-mers", maxNPZBytes)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("not an archive of NumPy arrays: %w", err)
	}
	names, err := openArray(archive, "kmer", "U")
	if err != nil {
		return nil, err
	}
	levels, err := openArray(archive, "current.mean", "f")
	if err != nil {
		return nil, err
	}
	if levels.size != 4 {
		return nil, fmt.Errorf("current.mean has floats of %d bytes, want 4", levels.size)
	}
	if names.size < minK || names.size > 4*maxNPZBytes || names.count != levels.count {
		return nil, fmt.Errorf("%d names of k-mers and %d levels: want as many", names.count, levels.count)
	}
	p := parser{form: standardForm, columns: map[string]int{"kmer": 0, "mean": 1}}
	for i := range names.count {
		level := math.Float32frombits(binary.LittleEndian.Uint32(levels.data[4*i:]))
		if err := p.row([]string{text32(names.data[names.size*i : names.size*(i+1)]), strconv.FormatFloat(float64(level), 'g', -1, 32)}); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return p.model()
}

// text32 is text of four bytes a letter, filled up with zeros.
func text32(data []byte) string {
	out := make([]byte, 0, len(data)/4)
	for i := 0; i+4 <= len(data); i += 4 {
		c := binary.LittleEndian.Uint32(data[i:])
		if c == 0 {
			break
		}
		if c > 0x7f {
			c = '?'
		}
		out = append(out, byte(c))
	}
	return string(out)
}

// array is a NumPy array of one dimension.
type array struct {
	data  []byte
	size  int // of an element, in bytes
	count int
}

var (
	npyDescr = regexp.MustCompile(`'descr': '<([Uf])(\d{1,4})'`)
	npyShape = regexp.MustCompile(`'shape': \((\d{1,9}),\)`)
)

// openArray reads an array of an archive: NumPy's format 1.0 to 3.0, little-endian.
func openArray(archive *zip.Reader, name, kind string) (array, error) {
	f, err := archive.Open(name + ".npy")
	if err != nil {
		return array{}, fmt.Errorf("no array %s: not a table of k-mers: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNPZBytes+1))
	if err != nil {
		return array{}, fmt.Errorf("array %s: %w", name, err)
	}
	if len(data) > maxNPZBytes {
		return array{}, fmt.Errorf("array %s has more than %d bytes", name, maxNPZBytes)
	}
	header, data, err := splitNPY(data)
	if err != nil {
		return array{}, fmt.Errorf("array %s: %w", name, err)
	}
	descr, shape := npyDescr.FindSubmatch(header), npyShape.FindSubmatch(header)
	if descr == nil || shape == nil || string(descr[1]) != kind {
		return array{}, fmt.Errorf("array %s is %q: want one dimension of kind %s, little-endian", name, clip(string(header)), kind)
	}
	size, err1 := strconv.Atoi(string(descr[2]))
	count, err2 := strconv.Atoi(string(shape[1]))
	if err := errors.Join(err1, err2); err != nil {
		return array{}, err
	}
	if kind == "U" {
		size *= 4
	}
	if size == 0 || len(data)/size != count || len(data)%size != 0 {
		return array{}, fmt.Errorf("array %s has %d bytes for %d elements of %d", name, len(data), count, size)
	}
	return array{data: data, size: size, count: count}, nil
}

// splitNPY takes the header from an array's data.
func splitNPY(data []byte) (header, rest []byte, err error) {
	if !bytes.HasPrefix(data, []byte("\x93NUMPY")) || len(data) < 12 {
		return nil, nil, errors.New("not a NumPy array")
	}
	begin, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		begin, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if length < 0 || length > len(data)-begin {
		return nil, nil, errors.New("the array's header is cut off")
	}
	return data[begin : begin+length], data[begin+length:], nil
}
