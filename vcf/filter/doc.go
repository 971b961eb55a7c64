// Package filter evaluates expressions in the language of bcftools' -i and -e on VCF records.
//
// Of that language it knows:
//
//   - the columns CHROM, POS, ID, REF, ALT, QUAL and FILTER; TYPE (snp, indel, mnp, bnd, overlap, other, ref) and N_ALT;
//   - INFO/X and FORMAT/X (FMT/X), or X alone where only one of them is declared, with subscripts: INFO/X[0], INFO/X[*],
//     FORMAT/X[sample], FORMAT/X[sample:value], FORMAT/X[*:value];
//   - GT="0/1", and GT="het", hom, hap, ref, alt, mis and R, A, RR, RA, AA, aA;
//   - numbers, "strings" and lists in them, "." for what is missing;
//   - = (==), !=, <, <=, >, >=, ~ and !~ (regular expressions), + - * / and parentheses;
//   - && and ||, and & and |, which ask for both sides to be true, or for one, within one sample.
//
// A comparison with several values is true if it is for one of them. Functions such as N_PASS() are not known; what is not
// known is an error that names the place.
package filter
