// Package hdf5 reads the part of the HDF5 format that files of nanopore signal and of networks' weights use.
//
// An HDF5 file is a tree of groups and datasets. Each has an object header, a list
// of messages that say what it is: links to other objects, attributes, or shape,
// type, layout and filters of data. The package reads superblocks 0 to 3, object
// headers 1 and 2, groups of every kind (symbol tables, compact links, dense links
// in fractal heaps), attributes of numbers, enumerations and text, compact or
// dense, and one-dimensional datasets of integers that are compact, contiguous or
// in chunks, with the chunk indexes that the HDF Group's library writes for them.
// Datasets of floating-point numbers are read in any number of dimensions, but not in chunks.
// The filters are deflate, shuffle, Fletcher-32 and ONT's VBZ.
//
// Left out, each with an error that says so: external files and links, virtual
// datasets, messages in a shared message table, filtered heaps, and chunks of more
// than one dimension.
//
// A file comes from outside, so nothing in it is believed: addresses and lengths
// are checked against the file before they are used, trees and chains may visit no
// more nodes than the file can hold, and nothing is allocated for a length that the
// bytes behind it can't bear out. Checksums of metadata are verified.
//
// Specification: HDF5 File Format Specification Version 3.0, The HDF Group,
// https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html. Section numbers in comments
// are those of that document.
package hdf5
