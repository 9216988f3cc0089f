// Package grafana makes tidemark's two Grafana dashboards: *Is it worth it* and *Is it healthy*.
//
// The files in dashboards/ are its output; a test compares both, and `make dashboards` writes the files anew. Nothing of the
// server imports this package.
//
// Rules that the panels keep: figures that the provider said (observed) and figures that would have been without tidemark
// (modelled) or are reckoned from bytes (estimated) never stand in one panel unless its title names both; a percent names its
// denominator in the title; what may be negative is red where it is.
package grafana
