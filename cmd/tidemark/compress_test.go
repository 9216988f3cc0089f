package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// The second door of a running server: on a socket, with a token, counted where the first one's requests are counted.
func TestServeCompress(t *testing.T) {
	dir := t.TempDir()
	socket, token := filepath.Join(dir, "c"), filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("open-sesame-open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	admin, err := free()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serve(ctx, serverconfig.Sources{Filters: knownFilters(), Flags: map[string]string{
			"listen": "unix:" + filepath.Join(dir, "s"), "admin.listen": admin, "restore.listen": "", "state": "memory:", "drain_delay": "0s", "log.level": "error", "deadline": "10s",
			"compress.listen": "unix:" + socket, "compress.token_file": token,
		}}, time.Now)
	}()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		for {
			c, err := d.DialContext(ctx, "unix", socket)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			time.Sleep(10 * time.Millisecond) // until it serves
		}
	}}}
	defer client.CloseIdleConnections()
	post := func(authorization, pipeline string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://compress/v1/compress", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		req.Header.Set("X-Tidemark-Pipeline", pipeline)
		req.Header.Set("X-Tidemark-Session", "s"+pipeline)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var answer map[string]any
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, answer
	}
	if status, answer := post("Bearer wrong", ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %v", status, answer)
	}
	for pipeline, gate := range map[string]string{"": "", "lossless": "no_pipeline", "nope": "bad_config"} {
		status, answer := post("Bearer open-sesame-open-sesame", pipeline)
		if about, ok := answer["tidemark"].(map[string]any); status != http.StatusOK || !ok || about["gate"] != gate {
			t.Errorf("%s: %d %v", pipeline, status, answer)
		}
	}
	res, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`tidemark_requests_total{format="openai.chat",mode="active",outcome="identity",route="compress"} 3`, `tidemark_refused_requests_total{listener="compress",reason="unauthorized"} 1`} {
		if !strings.Contains(string(text), line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
