// Package demux does what follows a basecall: it finds the barcode that says which
// sample a read is of, finds adapters, primers and barcodes to cut off, and finds the
// places where one read is really two.
//
// It works on sequences and currents alone and changes nothing: a [Classification] says
// where things are, and the caller cuts. All of it is pure and safe for concurrent
// use. Rules, thresholds and file formats are those that Dorado documents
// (documentation/CustomBarcodes.md, SampleSheets.md); docs/files/demux.md describes them,
// and testdata/oracle.py is a second implementation of them.
package demux
