package fast5

import (
	"errors"
	"hash/crc32"

	"github.com/porestream/porestream/signal/hdf5"
)

// ErrUnfinished says that a file's writer has not closed it, or that it is still
// being copied.
var ErrUnfinished = errors.New("not written yet")

// HeadLen is how much of a file's beginning Complete needs.
const HeadLen = 256

// Complete decides whether a file can be read, by its first HeadLen bytes (all of them if
// there are fewer) and by its size. It returns nil, ErrUnfinished, or what is wrong with
// the head. A reader finds the groups of an HDF5 file through tables that the writer
// keeps in memory, so a reader can't follow a file that is still being written.
func Complete(head []byte, size int64) error {
	if int64(len(head)) == size && size < HeadLen {
		return ErrUnfinished // a superblock and a group alone are longer
	}
	sb, err := hdf5.ParseSuperblock(head)
	if err != nil {
		return err
	}
	if sb.Writing || sb.EndOfFile > uint64(size) {
		return ErrUnfinished
	}
	return nil
}

// Check is a checksum of the names of the file's reads.
func (r *Reader) Check() uint32 {
	sum := crc32.NewIEEE()
	for _, l := range r.reads {
		_, _ = sum.Write([]byte(l.Name + "\n")) // never fails
	}
	return sum.Sum32()
}
