// Package vcf reads and writes the Variant Call Format, versions 4.0 to 4.5, as text, gzip or bgzip.
//
// A reader gives one Record at a time in bounded memory. What a program does not touch leaves it as it came: header
// lines, unknown INFO and FORMAT keys, the spelling of numbers and dropped trailing FORMAT fields are kept byte for
// byte. Errors carry the line number; the caller adds the file's name.
package vcf
