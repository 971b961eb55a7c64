// Package convert writes recordings anew, POD5, BLOW5 and FAST5 as POD5 or BLOW5:
// from one format to the other, several files into one, one into several.
//
// What both formats can hold comes through unchanged, and what the target can't
// hold is counted by field ([Loss]). Files are scanned first, so that what can't be
// converted at all is refused before anything is written, and appear under their
// names only when all of them are complete.
package convert
