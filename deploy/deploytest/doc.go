// Package deploytest checks what is deployed against the code: every metric
// that a dashboard, a rule or the documentation names is one that the programs
// register, with the labels that are asked for; every flag in the Compose file
// is one that the programs have; every file that is named is there.
//
// It holds tests only. Run with -update, they rewrite the tables in docs/reference/metrics.md
// and docs/operate/operations.md. Two need running programs, which deploy/check.sh starts: one
// asks a Prometheus that has watched a run for everything that dashboards show, and one
// makes faults, each of which the shipped alerts must report.
package deploytest
