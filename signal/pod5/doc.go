// Package pod5 reads and writes POD5, the file format in which MinKNOW records nanopore
// current.
//
// A POD5 file wraps Arrow tables: a signal table with pieces of current, a
// reads table with one row per read that lists its pieces, and (since version 3
// of the writer) a run info table. A FlatBuffers footer says where they lie. The
// wrapper is checked byte by byte here; the tables are read through Apache
// Arrow's Go library.
//
// Versions 0 to 2 of the writer keep channel, calibration, end reason and run as
// dictionaries of structs inside the reads table; version 3 and later flatten
// them into columns and move runs to their own table. The shape of the table, not
// its version number, decides how it is read, and both shapes give the same
// [Read].
//
// The file is mapped, one record batch at a time is decoded, and nothing is
// believed: a [Reader] refuses, with the table, row and field, whatever it can't
// read faithfully.
//
// Specification: https://pod5-file-format.readthedocs.io, "POD5 Format
// Specification" and the table descriptions beside it.
package pod5
