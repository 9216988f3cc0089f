package prometheus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// requireVariable is the environment variable that turns a skip for want of a Prometheus into a failure.
const requireVariable = "TIDEMARK_REQUIRE_PROMETHEUS"

// binary is a program of Prometheus; without one the test is skipped, or fails if the environment demands one.
func binary(t *testing.T, program string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join("..", "..", "scripts", "find-prometheus.sh"), program)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
		return strings.TrimSpace(string(out))
	case os.Getenv(requireVariable) == "1":
		t.Fatalf("no %s, and %s=1: %v\n%s", program, requireVariable, err, stderr.String())
	default:
		t.Skipf("no %s to test with: %v\n%s", program, err, stderr.String())
	}
	return ""
}

// server is a Prometheus that runs until the test ends.
type server struct{ url string }

// scrapeInterval is short, so that a range has many samples after seconds.
const scrapeInterval = 100 * time.Millisecond

// serve starts a Prometheus that scrapes targets, by job, and evaluates the rules of this folder.
func serve(t *testing.T, targets map[string]string) *server {
	t.Helper()
	program, dir := binary(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs("tidemark.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: %v, scrape_timeout: %[1]v, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", scrapeInterval, rules)
	for job, target := range targets {
		path := "/metrics"
		if job == "envoy" {
			path = "/stats/prometheus"
		}
		config += fmt.Sprintf("- {job_name: %s, metrics_path: %s, static_configs: [{targets: [%q]}]}\n", job, path, target)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := free(t)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // the signal is its error
		if t.Failed() {
			t.Logf("prometheus logged:\n%s", log.String())
		}
	})
	s := &server{"http://" + addr}
	s.until(t, "it is ready", func() bool {
		r, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return s
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// until waits for a condition that other processes bring about.
func (s *server) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// sample is one series of an answer.
type sample struct {
	labels map[string]string
	value  float64
}

// query evaluates an expression now.
func (s *server) query(expr string) ([]sample, error) {
	var data struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := s.get("/api/v1/query?query="+url.QueryEscape(expr), &data); err != nil {
		return nil, err
	}
	if data.Type != "vector" {
		return nil, fmt.Errorf("%s is a %s", expr, data.Type)
	}
	var series []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	if err := json.Unmarshal(data.Result, &series); err != nil {
		return nil, err
	}
	var out []sample
	for _, x := range series {
		text, _ := x.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, sample{x.Metric, v})
	}
	return out, nil
}

// get reads the data of an answer. An error that Prometheus reports is one.
func (s *server) get(path string, data any) error {
	r, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("%w: %s", err, b)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}
