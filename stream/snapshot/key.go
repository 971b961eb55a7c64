package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream"
)

// Source is whose state it is: that of the handler of one input partition in one
// consumer group.
type Source struct {
	Group, Topic string
	Partition    int32
}

func (s Source) String() string {
	return fmt.Sprintf("group %s topic %s partition %d", s.Group, s.Topic, s.Partition)
}

// Validate returns an error if s can't be part of a key.
func (s Source) Validate() error {
	switch {
	case s.Group == "" || len(s.Group) > maxName || strings.ContainsRune(s.Group, 0):
		return fmt.Errorf("a group's name has 1 to %d bytes and no NUL, not %q", maxName, s.Group)
	case s.Topic == "" || len(s.Topic) > maxName || strings.ContainsRune(s.Topic, 0):
		return fmt.Errorf("a topic's name has 1 to %d bytes and no NUL, not %q", maxName, s.Topic)
	case s.Partition < 0:
		return fmt.Errorf("there is no partition %d", s.Partition)
	}
	return nil
}

// Place is the partition, of n, that holds the source's state. The partitions of
// one topic lie side by side, so that they spread evenly; different groups and
// topics begin at different places.
func (s Source) Place(n int32) int32 {
	first := stream.PartitionFor([]byte(s.Group+"\x00"+s.Topic), n)
	return int32((int64(first) + int64(s.Partition)) % int64(n))
}

// prefix begins all keys of the source.
func (s Source) prefix() string {
	return s.Group + "\x00" + s.Topic + "\x00" + strconv.FormatInt(int64(s.Partition), 10) + "\x00"
}

// SourceOf is the source that a record of a state topic belongs to.
func SourceOf(key []byte) (Source, error) {
	fields := bytes.SplitN(key, []byte{0}, 4)
	if len(fields) < 4 {
		return Source{}, errors.New("the key names no group, topic and partition")
	}
	partition, err := strconv.ParseInt(string(fields[2]), 10, 32)
	if err != nil {
		return Source{}, fmt.Errorf("reading the key's partition: %w", err)
	}
	s := Source{Group: string(fields[0]), Topic: string(fields[1]), Partition: int32(partition)}
	if err := s.Validate(); err != nil {
		return Source{}, fmt.Errorf("reading the key: %w", err)
	}
	return s, nil
}

// slot is a place for one copy of a section, or of a manifest with its table.
type slot struct {
	epoch int32
	index uint8 // 0 or 1
}

func (s slot) less(o slot) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.index < o.index
}

// keyKind is what a key stands for.
type keyKind byte

const (
	kindSection  keyKind = 's'
	kindTable    keyKind = 't'
	kindManifest keyKind = 'm'
)

// key is the part of a record's key behind the source's prefix.
type key struct {
	kind keyKind
	slot
	part int    // of sections and tables
	name string // of sections
}

// append writes kind, epoch, slot, part and name, with a NUL before each but the
// first. The name comes last and may hold anything.
func (k key) append(b []byte) []byte {
	b = append(b, byte(k.kind), 0)
	b = strconv.AppendInt(b, int64(k.epoch), 10)
	b = append(b, 0, '0'+k.index)
	if k.kind == kindManifest {
		return b
	}
	b = append(b, 0)
	b = strconv.AppendInt(b, int64(k.part), 10)
	if k.kind == kindTable {
		return b
	}
	b = append(b, 0)
	return append(b, k.name...)
}

var errKey = errors.New("not a key of a snapshot")

// parseKey reads what [key.append] wrote.
func parseKey(b []byte) (key, error) {
	rest := b
	field := func() []byte {
		f, tail, _ := bytes.Cut(rest, []byte{0})
		rest = tail
		return f
	}
	kind, epoch, index := field(), field(), field()
	if len(kind) != 1 || len(index) != 1 || index[0] != '0' && index[0] != '1' {
		return key{}, errKey
	}
	k := key{kind: keyKind(kind[0])}
	n, err := strconv.ParseUint(string(epoch), 10, 31)
	if err != nil {
		return key{}, errKey
	}
	k.slot = slot{epoch: int32(n), index: index[0] - '0'}
	if k.kind == kindSection || k.kind == kindTable {
		part, err := strconv.ParseUint(string(field()), 10, 31)
		if err != nil || part >= maxParts {
			return key{}, errKey
		}
		k.part = int(part)
	}
	if k.kind == kindSection {
		if len(rest) == 0 || len(rest) > maxName {
			return key{}, errKey
		}
		k.name = string(rest)
	}
	// Only one spelling is a key: two spellings would be two records to
	// compaction and one to us.
	var again [maxName + 64]byte
	if k.kind != kindSection && k.kind != kindTable && k.kind != kindManifest || !bytes.Equal(k.append(again[:0]), b) {
		return key{}, errKey
	}
	return k, nil
}
