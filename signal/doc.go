// Package signal reads recorded nanopore current.
//
// A recording is a set of files, POD5, BLOW5 or FAST5, written by one or more
// sequencing runs. Whatever the format, this package presents the same three
// things: a [Run] (one acquisition on one flow cell), a [Read] (the current of
// one molecule, with where and when it was measured) and a [Calibration] that
// turns ADC levels into picoamperes.
//
// There are two ways through a recording. [Open] streams one file in file
// order and holds one record batch in memory; that is what a basecaller over
// files wants. [NewIndex] lists the reads of many files in the order in which
// the sequencer began them and fetches samples on demand; that is what a player
// wants that repeats the recording by its own clock.
//
// A file that can't be read faithfully is refused. Every error names the file,
// the place in it and what is wrong there, on one line.
package signal
