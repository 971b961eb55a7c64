// Package snapshot keeps a handler's state on a compacted topic, such that the next
// owner of the handler's partition finds it again after a crash at any moment.
//
// Problem: a state of many megabytes has to be written as records of less than
// one, while the broker compacts the topic, owners crash in the middle of it, and
// an owner that was declared dead goes on writing for a while.
//
// Assumptions: records of one producer are in the log in the order they were
// sent, some of the last ones missing after a crash; compaction keeps at least the
// last record of a key. A state is a function of the records of its input up to
// an offset.
//
// Strategy: the state's sections are written as parts, each under a key of its
// own, and last of all a manifest that says where every section's parts are and
// what they hold. A snapshot without a manifest does not exist; a manifest that
// disagrees with the parts is refused. Only sections that have changed are
// written; of the others the manifest names the parts that are there already.
// Sections and manifests have two slots. A new snapshot overwrites none of the
// slots that the last one uses, its [Writer]'s base. It becomes the base itself
// once it is durable and, after that, a commit has succeeded at or behind its
// offset: only then can every later owner use it, since state from behind the
// committed offset would hold effects that are not yet downstream.
//
// Slots belong to an epoch, the group's generation in which their writer began,
// so writers never overwrite each other's. An owner that lost its partition
// without knowing it may finish the snapshot it is at. It can't begin the one
// after, because it can't commit, so it removes nothing that others rely on. What
// earlier epochs have left is removed when it is certain that nobody will choose
// it any more: the snapshots of the highest epoch come first, and the writer's own
// is the base.
//
// A worker that keeps its handler over a rebalance may keep the Writer, as it is,
// if the partition was its own in every generation between. Otherwise somebody
// else may have written: it restores like any new owner.
//
// Consequences: at every moment there is a snapshot that can be used, once there
// was one. Two are there most of the time, and the older one takes the place of
// one whose records were damaged, unless a section that both share was.
//
// Reading goes over the log twice: [Index] notes which records there are and
// picks a snapshot, a [Restorer] then takes its parts, in the order of the log.
// Neither holds the whole state. Nothing here does I/O or reads a clock.
//
// The format is described in stream/FORMAT.md. A program reads the snapshots of
// every older format version, and refuses newer ones.
package snapshot
