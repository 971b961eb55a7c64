// Package monitor is the live picture of a deployment: a pure fold of what travels
// in Kafka (reports of the processes, runs, annotated variants, alerts, dead
// letters) into the view that the live page shows.
//
// The fold starts no goroutine and reads no clock: the caller that has the records
// passes them in, and the time with every question. Its memory is bounded, and what
// it leaves out is counted and shown. Reports are cumulative and named by the process
// and its start, so that one that is lost, comes twice or late changes nothing.
//
// API.md is the contract with the page; the types in view.go are its JSON.
package monitor
