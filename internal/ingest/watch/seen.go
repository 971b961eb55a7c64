package watch

import (
	"bytes"
	"crypto/sha256"
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
	fresh    map[readKey]struct{}
	limit    int
	segments []*segment
	page     []byte
}

// readKey stands for a read's id. Two ids of a run with the same one don't occur.
type readKey [16]byte

func keyOf(id string) readKey {
	h := sha256.Sum256([]byte(id))
	return readKey(h[:16])
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
	return &seen{dir: dir, limit: limit, fresh: make(map[readKey]struct{}), page: make([]byte, pageKeys*len(readKey{}))}
}

func (s *seen) add(id string) error {
	s.fresh[keyOf(id)] = struct{}{}
	if len(s.fresh) < s.limit {
		return nil
	}
	return s.spill()
}

// spill moves what is in memory to disk.
func (s *seen) spill() error {
	if len(s.fresh) == 0 {
		return nil
	}
	keys := make([]readKey, 0, len(s.fresh))
	for k := range s.fresh {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b readKey) int { return bytes.Compare(a[:], b[:]) })
	f, err := os.CreateTemp(s.dir, "seen-")
	if err != nil {
		return fmt.Errorf("remembering reads: %w", err)
	}
	// Without a name, the file goes away with the process.
	err = os.Remove(f.Name())
	seg := &segment{f: f, n: len(keys)}
	var b []byte
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

func (s *seen) has(id string) (bool, error) {
	k := keyOf(id)
	if _, ok := s.fresh[k]; ok {
		return true, nil
	}
	for _, seg := range s.segments {
		ok, err := seg.has(k, s.page)
		if err != nil {
			return false, fmt.Errorf("looking up read %s: %w", id, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

func (g *segment) has(k readKey, page []byte) (bool, error) {
	at := sort.Search(len(g.pages), func(i int) bool { return bytes.Compare(g.pages[i][:], k[:]) > 0 }) - 1
	if at < 0 {
		return false, nil
	}
	const size = len(readKey{})
	n := min(pageKeys, g.n-at*pageKeys)
	b := page[:n*size]
	if _, err := g.f.ReadAt(b, int64(at*pageKeys*size)); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	i := sort.Search(n, func(i int) bool { return bytes.Compare(b[i*size:(i+1)*size], k[:]) >= 0 })
	return i < n && readKey(b[i*size:(i+1)*size]) == k, nil
}

func (s *seen) close() {
	for _, seg := range s.segments {
		seg.f.Close()
	}
}
