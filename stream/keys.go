package stream

import (
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream/streampb"
)

// Record keys. They decide the partition (see [PartitionFor]), so changing one
// is a migration.

// SignalKey keys a channel of a run: all chunks of a read are on one partition,
// in order. So are all decisions about the channel's reads, on their topic.
func SignalKey(run string, channel uint32) []byte {
	return []byte(run + "/" + strconv.FormatUint(uint64(channel), 10))
}

// CalledKey keys a called read of a run. Nothing ties the reads of a run together, so
// they are spread over all partitions.
func CalledKey(run, readID string) []byte { return []byte(run + "/" + readID) }

// RegionKey keys a region of a contig in a sample: one partition, hence one
// worker, sees all reads that cover it.
func RegionKey(sample, contig string, region uint32) []byte {
	return []byte(sample + "/" + contig + "/" + strconv.FormatUint(uint64(region), 10))
}

// AlleleKey keys an allele in a sample by its GA4GH VRS id.
func AlleleKey(sample, vrsID string) []byte { return []byte(sample + "/" + vrsID) }

// CoverageKey keys a stretch of a contig in a sample, which begins at a 0-based
// position, on the calls topic.
func CoverageKey(sample, contig string, start int64) []byte {
	return []byte(sample + "/" + contig + "/" + strconv.FormatInt(start, 10))
}

// ReferenceKey is the key of the record about the places without a variant in a stretch of a contig of a sample; the
// stretch begins at a 0-based position. Zero bytes, which no name holds, keep it apart from all other keys.
func ReferenceKey(sample, contig string, start int64) []byte {
	return []byte("reference\x00" + sample + "\x00" + contig + "\x00" + strconv.FormatInt(start, 10))
}

// ContigPartition is the partition of the calls topic, among n, that holds
// everything about a contig of a sample. What a change does to a protein may
// depend on the changes beside it, so one worker sees all of them; the record's
// key, an allele, is too fine to choose by.
func ContigPartition(sample, contig string, n int32) int32 {
	return PartitionFor([]byte(sample+"/"+contig), n)
}

// MethylationKey keys one modification in a stretch of a contig, which begins at a 0-based position, in a sample: of all
// reads, or of a haplotype's. No code of a modification reads as a haplotype's name does.
func MethylationKey(sample, contig string, start int64, code string, haplotype int) []byte {
	key := sample + "/" + contig + "/" + strconv.FormatInt(start, 10) + "/" + code
	if haplotype > 0 {
		key += "/HP" + strconv.Itoa(haplotype)
	}
	return []byte(key)
}

// ModifiedCallsKey is the key of the record in which a partition reports its calls of modified bases to all others,
// on the reads topic. A zero byte, which no name holds, keeps it apart from all other keys.
func ModifiedCallsKey(source uint32) []byte {
	return []byte("modified\x00" + strconv.FormatUint(uint64(source), 10))
}

// ModifiedPlacesKey is the key of the places that a partition reports to the one that searches a sample's motifs, on the reads topic, and
// [ModifiedMotifsKey] that of what was found, as ModifiedCallsKey.
func ModifiedPlacesKey(source uint32) []byte {
	return []byte("places\x00" + strconv.FormatUint(uint64(source), 10))
}

// ModifiedMotifsKey is the key of a sample's motifs.
func ModifiedMotifsKey(sample string) []byte { return []byte("motifs\x00" + sample) }

// MotifsPartition is the partition of the reads topic, among n, whose worker searches a sample's motifs.
func MotifsPartition(sample string, n int32) int32 { return PartitionFor(ModifiedMotifsKey(sample), n) }

// HaplotypesKey is the key of what a partition says of the haplotypes of reads, on the reads topic, as ModifiedCallsKey.
func HaplotypesKey(source uint32) []byte {
	return []byte("haplotypes\x00" + strconv.FormatUint(uint64(source), 10))
}

// CarryOverKey is the key of what partitions ask and say of carry-over, on the reads topic; [CarryOverEndKey] is of another topic.
func CarryOverKey(source uint32) []byte {
	return []byte("carry-over\x00" + strconv.FormatUint(uint64(source), 10))
}

// CarryOverEndKey is the key of the record that says that a run's carry-over has all been assessed, on the calls topic. A zero byte, which no name holds, keeps it
// apart from all other keys.
func CarryOverEndKey(run string) []byte { return []byte("carry-over\x00" + run) }

const markerKeyPrefix = "run\x00"

// MarkerKey keys a run marker of one source, so that compaction keeps each
// source's newest. No allele key can equal one.
func MarkerKey(m *streampb.Marker, end bool) []byte {
	which := "start"
	if end {
		which = "end"
	}
	return []byte(markerKeyPrefix + m.GetRun().GetId() + "/" + which + "/" + strconv.FormatUint(uint64(m.GetSource()), 10))
}

// IsMarkerKey reports whether key was made by [MarkerKey].
func IsMarkerKey(key []byte) bool { return strings.HasPrefix(string(key), markerKeyPrefix) }

// PartitionFor is the partition of key among n, as Kafka's Java client chooses
// it: murmur2 of the key, sign bit cleared, modulo n.
func PartitionFor(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

// murmur2 is MurmurHash2 (Austin Appleby, public domain) with the seed that
// Kafka's clients use.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
