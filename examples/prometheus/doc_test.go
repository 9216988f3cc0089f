// Package prometheus_test runs the rules and the dashboards against a real Prometheus, which scrapes the real metrics.
package prometheus_test
