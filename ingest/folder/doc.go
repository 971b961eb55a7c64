// Package folder ingests folders in which POD5 and BLOW5 files are still being
// written, rotated, renamed or moved in. FAST5 files, which nobody can read before
// their writer has closed them, are taken when they are complete.
//
// A growing folder has no order that could be played again: which reads are there
// first depends on when it was listed. So the order in which reads are sent is decided
// as they are found, and written to a [journal] on disk before any of them is sent.
// Kafka's cursor of a run counts events; the journal says which reads these are. On a
// start, what the journal has beyond the cursor is forgotten, and those reads are found
// again in the folder like any other. A read is known by its id, whatever file it is in,
// so files may be renamed, copied or finished meanwhile.
//
// [catalog] decides, from listings of the folders alone, which files to read. It
// saves work and no more: if it forgot a file's place, the reads in it would be
// read again and found to be known.
package folder
