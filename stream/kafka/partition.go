package kafka

import "github.com/porestream/porestream/stream"

// keyPartition is the partition of a record whose producer left the choice to
// its key. Records without a key go to partition 0.
func keyPartition(key []byte, partitions int32) int32 {
	if key == nil {
		return 0
	}
	return stream.PartitionFor(key, partitions)
}
