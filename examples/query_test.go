package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClaudeCodesMeterBesideOurs: the query of docs/tracing.md, by Prometheus' own tool, on a day on which both counted the same.
func TestClaudeCodesMeterBesideOurs(t *testing.T) {
	tool, err := exec.CommandContext(t.Context(), "bash", "../scripts/find-prometheus.sh", "promtool").Output()
	if err != nil {
		if os.Getenv("TIDEMARK_REQUIRE_PROMETHEUS") == "1" {
			t.Fatal(err)
		}
		t.Skip("no promtool to test with")
	}
	page, err := os.ReadFile("../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	query := regexp.MustCompile("(?s)```promql\n(.*?)```").FindSubmatch(page)
	if query == nil {
		t.Fatal("the page has no query")
	}
	var series, want strings.Builder
	for _, s := range []struct {
		name  string
		hours int // tokens per hour
	}{
		{`claude_code_token_usage_tokens_total{type="input",session_id="1"}`, 10},
		{`claude_code_token_usage_tokens_total{type="output",session_id="1"}`, 1},
		{`claude_code_token_usage_tokens_total{type="cacheRead",session_id="1"}`, 100},
		{`claude_code_token_usage_tokens_total{type="cacheRead",session_id="2"}`, 100},
		{`claude_code_token_usage_tokens_total{type="cacheCreation",session_id="1"}`, 5},
		{`tidemark_billed_tokens_total{route="r",model="m",tier="input"}`, 10},
		{`tidemark_billed_tokens_total{route="r",model="m",tier="output"}`, 1},
		{`tidemark_billed_tokens_total{route="r",model="m",tier="cache_read"}`, 200},
		{`tidemark_billed_tokens_total{route="r",model="m",tier="cache_write_5m"}`, 3},
		{`tidemark_billed_tokens_total{route="r",model="m",tier="cache_write_1h"}`, 2},
	} {
		fmt.Fprintf(&series, "  - {series: '%s', values: '0+%dx48'}\n", s.name, s.hours)
	}
	for kind, n := range map[string]int{"input": 240, "output": 24, "cache_read": 4800, "cache_write": 120} {
		for _, source := range []string{"claude_code", "tidemark"} {
			fmt.Fprintf(&want, "    - {labels: '{source=%q,kind=%q}', value: %d}\n", source, kind, n)
		}
	}
	file := filepath.Join(t.TempDir(), "test.yml")
	text := fmt.Sprintf("evaluation_interval: 1h\ntests:\n- interval: 1h\n  input_series:\n%s  promql_expr_test:\n  - eval_time: 48h\n    expr: |\n      %s\n    exp_samples:\n%s",
		series.String(), bytes.ReplaceAll(bytes.TrimSpace(query[1]), []byte("\n"), []byte("\n      ")), want.String())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(tool)), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}
