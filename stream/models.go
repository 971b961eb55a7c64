package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream/streampb"
)

// Segments carry the model that has called their read as a number of four bytes, and a
// record of its own gives that number a name. The number follows from the name, so nobody
// has to hand numbers out: all who write segments agree, whatever they have seen before.

// ModelNumber is the number by which segments name a basecalling model; 0 for no name.
func ModelNumber(name string) uint32 {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	// 0 stands for a model that nobody has named.
	return max(1, binary.LittleEndian.Uint32(sum[:]))
}

// ModelNameable reports whether a name can be given a number: it is not empty, and no longer than
// names in records are.
func ModelNameable(name string) bool { return validName("basecalling model", name) == nil }

// ModelRecords are the records that give every partition of the topic of reads the name of a
// basecalling model. The writer of segments writes them before the first segment that has the
// number, or at the latest before the end of the run.
func ModelRecords(topic string, partitions int32, name string) ([]Out, error) {
	number := ModelNumber(name)
	value, err := EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Model{Model: &streampb.ModelName{Number: number, Name: name}}})
	if err != nil {
		return nil, err
	}
	outs := make([]Out, partitions)
	for p := range outs {
		outs[p] = Out{Topic: topic, Partition: int32(p), Key: []byte("model\x00" + strconv.FormatUint(uint64(number), 10)), Value: value}
	}
	return outs, nil
}

// mixedShare is the part of a sample's reads that a second basecalling model must have called
// for the sample to be mixed: stray reads of another don't count.
const mixedShare = 0.01

// MismatchShare is the share of a sample's reads from which on a warning is shown: that many were
// called by models that the variant model was not made for. The live page and the summary of a run
// use it.
const MismatchShare = 0.01

// MixedModels reports whether several basecalling models, or versions of one, have called the
// reads of a sample. Reads that name none don't count.
func MixedModels(list []*streampb.ModelReads) bool {
	named, most, second := uint64(0), uint64(0), uint64(0)
	for _, m := range list {
		n := m.GetReads()
		if m.GetName() == "" {
			continue
		}
		named += n
		if n > most {
			n, most = most, n
		}
		second = max(second, n)
	}
	return second > 0 && float64(second) >= mixedShare*float64(named)
}

// AddModelReads adds what models have called to a list that is sorted by name.
func AddModelReads(list []*streampb.ModelReads, more ...*streampb.ModelReads) []*streampb.ModelReads {
	for _, m := range more {
		i, known := slices.BinarySearchFunc(list, m.GetName(), func(x *streampb.ModelReads, name string) int { return strings.Compare(x.GetName(), name) })
		if !known {
			list = slices.Insert(list, i, &streampb.ModelReads{Name: m.GetName()})
		}
		list[i].Reads += m.GetReads()
		list[i].Mismatch = list[i].Mismatch || m.GetMismatch()
	}
	return list
}
