// Package fast5 reads FAST5, in which ONT's software kept nanopore current until
// 2023: HDF5 files of groups with agreed names.
//
// A multi-read file has a group read_ID for each read; a single-read file has one
// read in /Raw/Reads/Read_NUMBER, and what belongs to it in /UniqueGlobalKey. Either
// way a read is a dataset Signal of 16-bit levels with attributes on its group Raw
// (id, number, start, duration, well, median before, end reason), a group channel_id
// (channel, digitisation, offset, range, sample rate) and the groups tracking_id and
// context_tags, which describe the run. Calls of old basecallers, which may be in
// /Analyses, are left alone. Reads are in the order of their groups' names.
//
// Bulk files, in which a channel's current is not divided into reads, are refused.
//
// There is no specification. What is here agrees with ONT's ont_fast5_api 4.1 and
// the converters of its package pod5; tests hold it to them.
package fast5
