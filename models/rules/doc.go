// Package rules says by rules in a file which basecalling model a run is called with: the
// first rule that a run's description matches has the say. It opens no model and knows none:
// what a rule names is looked up by whoever loads it. docs/attach/run-models.md describes the file.
package rules
