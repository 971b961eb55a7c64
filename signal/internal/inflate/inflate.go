// Package inflate unpacks zlib data (RFC 1950) that lie whole in memory, as records of
// BLOW5 and chunks of HDF5 do.
package inflate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zlib"
)

var (
	// ErrCorrupt is wrapped by the errors for data that are not zlib's.
	ErrCorrupt = errors.New("corrupt zlib data")
	// ErrLimit says that data unpack to more than is allowed.
	ErrLimit = errors.New("zlib data unpack to more than allowed")
)

// Decoder holds what unpacking needs, one piece of data at a time. The zero Decoder is
// ready for use.
type Decoder struct {
	in     bytes.Reader
	stream io.ReadCloser
}

// Zlib appends what src unpacks to, which must be one zlib stream and nothing else, and
// no more than limit bytes. On an error it returns dst unchanged.
func (d *Decoder) Zlib(dst, src []byte, limit int) (_ []byte, err error) {
	d.in.Reset(src)
	if d.stream == nil {
		d.stream, err = zlib.NewReader(&d.in)
	} else {
		err = d.stream.(zlib.Resetter).Reset(&d.in, nil)
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out := dst
	for {
		if len(out) == cap(out) {
			out = slices.Grow(out, max(len(out)-len(dst), 512))
		}
		n, err := d.stream.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out)-len(dst) > limit:
			return dst, ErrLimit
		case errors.Is(err, io.EOF) && d.in.Len() > 0:
			return dst, fmt.Errorf("%w: %d bytes left over", ErrCorrupt, d.in.Len())
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}
