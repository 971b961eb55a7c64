// Package planted holds the bugs that the chaos suite plants to prove that its checker catches them.
//
// The place where a bug would be asks Is, which is constant false in a normal build, so that the compiler removes the bug and its
// name. Only a build with the tag planted has them, and there each is asleep until the environment variable PORESTREAM_PLANTED
// names it.
package planted

// A Bug is one fault that can be planted. Its value names it in PORESTREAM_PLANTED.
type Bug string

// The bugs of the exactly-once path, each at the one place where leaving a line out would make it.
const (
	// SkipOffsets commits a transaction without the input's offsets in it.
	SkipOffsets Bug = "skip-offsets"
	// NoFencing lets a new owner produce and commit without fencing the one before it.
	NoFencing Bug = "no-fencing"
	// NoTrailer restores a snapshot without its trailer, which says what offset it is of, as if it were of the committed one.
	NoTrailer Bug = "no-trailer"
	// LoudReplay lets a handler emit what it had emitted already while a partition is restored.
	LoudReplay Bug = "loud-replay"
	// DoubleApply folds a segment into the variant state twice.
	DoubleApply Bug = "double-apply"
	// ForgetRunEnd drops the marker that ends a run.
	ForgetRunEnd Bug = "forget-run-end"
	// CommitBeforeProduce commits an input offset before what it led to is written.
	CommitBeforeProduce Bug = "commit-before-produce"
	// IgnoreAbort reads records of transactions that were aborted.
	IgnoreAbort Bug = "ignore-abort"
	// DoubleCount counts the modified bases of a read twice.
	DoubleCount Bug = "double-count"
	// ForgetCounts restores the state of the stage that counts modified bases without the reads that it has counted.
	ForgetCounts Bug = "forget-counts"
)

// All returns every bug that can be planted.
func All() []Bug {
	return []Bug{SkipOffsets, NoFencing, NoTrailer, LoudReplay, DoubleApply, ForgetRunEnd, CommitBeforeProduce, IgnoreAbort, DoubleCount, ForgetCounts}
}
