// Package rules decides by rules in a file which basecalling model a run is called with: the
// first rule that matches a run's description decides. It opens no model and knows none: the
// caller looks up and loads the model that a rule names. docs/attach/run-models.md describes the file.
package rules
