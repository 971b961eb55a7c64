// Package catalogue makes panels of the tables that others publish: graded mutations of M. tuberculosis, and barcodes of
// lineages. Tables whose terms don't allow them to be part of Porestream become panels on the user's machine.
//
// All of it is pure, and every row is held against the reference: a row that says another base or residue than the
// reference has is an error with its line.
package catalogue
