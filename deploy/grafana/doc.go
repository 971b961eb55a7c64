// Package grafana describes Porestream's Grafana dashboards.
//
// A dashboard is a list of rows of panels, a panel a title, a sentence and its
// queries. What Grafana wants beyond that is the same for all of them and is
// added when they are rendered. dashboards/ holds the result, which is what
// Grafana reads; go generate renews it and a test compares it.
package grafana

//go:generate go run ./gen
