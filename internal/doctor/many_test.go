package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyRoutes: as many series as an answer can hold are looked through once for each rule, not once for each other.
func TestManyRoutes(t *testing.T) {
	const routes = 50_000
	var text strings.Builder
	text.WriteString("tidemark_build_info{version=\"v1\"} 1\n")
	for i := range routes {
		fmt.Fprintf(&text, "tidemark_requests_total{route=\"r%d\",mode=\"active\"} 100\n", i)
	}
	for i := range routes {
		fmt.Fprintf(&text, "tidemark_billed_tokens_total{route=\"r%d\",tier=\"input\"} 300000\n", i)
	}
	d := &doctor{report: &Report{}}
	var err error
	if d.metrics, err = parseSamples([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	d.judgeTap()
	d.judgeReads()
	if n := len(d.report.Findings); n != 1 || d.report.Findings[0].Rule != "no-breakpoints" || len(d.report.Findings[0].Message) > 1000 {
		t.Errorf("%d findings: %v", n, d.report.Findings)
	}
}
