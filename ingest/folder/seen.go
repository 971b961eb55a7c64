package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
)

// seen is the set of a run's reads that were sent. The newest are in memory, the
// others on disk: a PromethION run has tens of millions. It is made anew from the
// journal on each start.
type seen struct {
	dir      string
	fresh    map[readKey]uint32 // sums by keys of ids
	limit    int
	segments []*segment
	page     []byte
}

// readKey stands for a read: 12 bytes for its id, of which two in a run don't have the
// same, and the sum of what it holds.
type readKey [16]byte

// idLen is how much of a key is the id's.
const idLen = 12

func keyOf(id string, sum uint32) (k readKey) {
	h := sha256.Sum256([]byte(id))
	copy(k[:idLen], h[:])
	binary.LittleEndian.PutUint32(k[idLen:], sum)
	return k
}

// split is the key of the id alone, and the sum.
func (k readKey) split() (id readKey, sum uint32) {
	sum = binary.LittleEndian.Uint32(k[idLen:])
	clear(k[idLen:])
	return k, sum
}

const (
	// freshReads are kept in memory, at about 40 bytes each.
	freshReads = 1 << 18
	// pageKeys are the keys that are read from disk at once.
	pageKeys = 256
)

// segment is a sorted stretch of keys on disk, with every first key of a page.
type segment struct {
	f     *os.File
	n     int
	pages []readKey
}

// newSeen makes an empty set that keeps its files in a folder; limit is the number
// of keys in memory.
func newSeen(dir string, limit int) *seen {
	return &seen{dir: dir, limit: limit, fresh: make(map[readKey]uint32), page: make([]byte, pageKeys*len(readKey{}))}
}

func (s *seen) add(id string, sum uint32) error {
	s.put(id, sum)
	if len(s.fresh) < s.limit {
		return nil
	}
	return s.spill()
}

// put adds a read to what is in memory.
func (s *seen) put(id string, sum uint32) { s.fresh[keyOf(id, 0)] = sum }

// spill moves what is in memory to disk.
func (s *seen) spill() error {
	if len(s.fresh) == 0 {
		return nil
	}
	keys := make([]readKey, 0, len(s.fresh))
	for k, sum := range s.fresh {
		binary.LittleEndian.PutUint32(k[idLen:], sum)
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b readKey) int { return bytes.Compare(a[:], b[:]) })
	f, err := os.CreateTemp(s.dir, "seen-")
	if err != nil {
		return fmt.Errorf("remembering reads: %w", err)
	}
	// Without a name, the file goes away with the process.
	err = os.Remove(f.Name())
	seg := &segment{f: f, n: len(keys), pages: make([]readKey, 0, (len(keys)+pageKeys-1)/pageKeys)}
	b := make([]byte, 0, len(keys)*len(readKey{}))
	for i, k := range keys {
		if i%pageKeys == 0 {
			seg.pages = append(seg.pages, k)
		}
		b = append(b, k[:]...)
	}
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		return fmt.Errorf("remembering reads: %w", errors.Join(err, f.Close()))
	}
	s.segments = append(s.segments, seg)
	clear(s.fresh)
	return nil
}

// has reports whether a read is known, and returns the sum of what it holds.
func (s *seen) has(id string) (known bool, sum uint32, err error) {
	k := keyOf(id, 0)
	if sum, ok := s.fresh[k]; ok {
		return true, sum, nil
	}
	for _, seg := range s.segments {
		known, sum, err := seg.has(k, s.page)
		if err != nil {
			return false, 0, fmt.Errorf("looking up read %s: %w", id, err)
		}
		if known {
			return true, sum, nil
		}
	}
	return false, 0, nil
}

func (g *segment) has(k readKey, page []byte) (known bool, sum uint32, err error) {
	at := sort.Search(len(g.pages), func(i int) bool { return bytes.Compare(g.pages[i][:idLen], k[:idLen]) > 0 }) - 1
	if at < 0 {
		return false, 0, nil
	}
	const size = len(readKey{})
	n := min(pageKeys, g.n-at*pageKeys)
	b := page[:n*size]
	if _, err := g.f.ReadAt(b, int64(at*pageKeys*size)); err != nil && !errors.Is(err, io.EOF) {
		return false, 0, err
	}
	i := sort.Search(n, func(i int) bool { return bytes.Compare(b[i*size:i*size+idLen], k[:idLen]) >= 0 })
	if i == n {
		return false, 0, nil
	}
	found, sum := readKey(b[i*size : (i+1)*size]).split()
	return found == k, sum, nil
}

func (s *seen) close() {
	for _, seg := range s.segments {
		seg.f.Close()
	}
}
