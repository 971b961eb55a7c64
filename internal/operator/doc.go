// Package operator is what operators do to a deployment's topics while or after
// it runs: they read dead letters and send them back, and have a stage go over
// a stretch of its input again.
package operator
