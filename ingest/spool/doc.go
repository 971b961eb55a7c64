// Package spool keeps a bounded, numbered queue of records on disk, as a
// write-ahead log: what [Log.Append] has taken survives the process being
// killed and the machine losing power.
//
// A log is a folder of segment files. format.go is their layout, pure and
// described in stream/FORMAT.md; the rest writes, syncs, reads and deletes
// them.
//
// Policy: an append is written and synced (fsync) as a whole before it returns,
// so callers gather records to pay for a sync once; a new segment's folder is
// synced before anything is taken into it. When a log is opened, its last segment is
// cut at the first record that doesn't check: nothing behind it has been
// taken. The same damage in an earlier segment is not a torn tail but a faulty
// disk, and an error.
package spool
