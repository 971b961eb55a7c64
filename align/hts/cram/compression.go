package cram

import (
	"bytes"
	"fmt"
)

// compression is what a container says of the series of its slices (section 8.4).
type compression struct {
	named       bool // reads have names
	delta       bool // positions are differences to the one before
	byReference bool // bases are those of a reference
	substitutes [5][4]byte
	tagLists    [][]tagKey
	series      map[string]*encoding
	tags        map[tagKey]*encoding
}

// tagKey is a tag's two letters and type.
type tagKey [3]byte

func (k tagKey) String() string { return string(k[:2]) + ":" + string(k[2:]) }

// bases is the order in which substitutions are numbered.
const bases = "ACGTN"

func readCompression(data []byte) (*compression, error) {
	c := &compression{named: true, delta: true, byReference: true, series: make(map[string]*encoding), tags: make(map[tagKey]*encoding)}
	s := newStream(data)
	if err := c.readPreserved(s); err != nil {
		return nil, err
	}
	err := readMap(s, func(s *stream) (string, error) {
		name := string(s.take(2))
		e, err := readEncoding(s)
		c.series[name] = e
		return "series " + name, err
	})
	if err != nil {
		return nil, err
	}
	err = readMap(s, func(s *stream) (string, error) {
		n := s.itf8()
		key := tagKey{byte(n >> 16), byte(n >> 8), byte(n)}
		e, err := readEncoding(s)
		c.tags[key] = e
		return "tag " + key.String(), err
	})
	if err != nil {
		return nil, err
	}
	return c, s.fail.err
}

// readMap reads a map, whose size in bytes and in entries stands before it.
func readMap(s *stream, entry func(*stream) (name string, err error)) error {
	in := newStream(s.take(int(s.itf8())))
	if s.fail.err != nil {
		return s.fail.err
	}
	for range in.itf8() {
		name, err := entry(in)
		if in.fail.err != nil {
			return in.fail.err
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return in.fail.err
}

func (c *compression) readPreserved(s *stream) error {
	return readMap(s, func(s *stream) (string, error) {
		key := string(s.take(2))
		switch key {
		case "RN":
			c.named = s.byte() != 0
		case "AP":
			c.delta = s.byte() != 0
		case "RR":
			c.byReference = s.byte() != 0
		case "SM":
			c.readSubstitutes(s.take(5))
		case "TD":
			c.readTagLists(s.take(int(s.itf8())))
		case "MI", "UI", "PI": // of CRAM 1
			s.byte()
		default:
			return key, fmt.Errorf("it is nothing that CRAM 3 preserves")
		}
		return key, nil
	})
}

// readSubstitutes reads, for each base of a reference, the two bits that stand for each other base.
func (c *compression) readSubstitutes(matrix []byte) {
	for i, codes := range matrix {
		shift := 6
		for k := range bases {
			if k != i {
				c.substitutes[i][codes>>shift&3] = bases[k]
				shift -= 2
			}
		}
	}
}

// substitute is what a code stands for where a reference has a base.
func (c *compression) substitute(base, code byte) byte {
	i := bytes.IndexByte([]byte(bases), base)
	if i < 0 {
		i = len(bases) - 1
	}
	return c.substitutes[i][code&3]
}

func (c *compression) readTagLists(dictionary []byte) {
	for list := range bytes.SplitSeq(bytes.TrimSuffix(dictionary, []byte{0}), []byte{0}) {
		var keys []tagKey
		for ; len(list) >= 3; list = list[3:] {
			keys = append(keys, tagKey(list))
		}
		c.tagLists = append(c.tagLists, keys)
	}
}
