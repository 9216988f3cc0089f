package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/eventlog"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// tokensOf are tokens of a text as the provider of the test counts.
func tokensOf(text []byte) int { return len(text) / 4 }

// exchange sends one request and the answer to it, of the usage of a provider that holds so many tokens, and returns what was
// forwarded.
func exchange(t *testing.T, c extprocv3.ExternalProcessorClient, id string, body []byte, held int) []byte {
	t.Helper()
	stream, err := c.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forwarded := body
	send := func(r *extprocv3.ProcessingRequest) {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		a, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if b := a.GetRequestBody().GetResponse().GetBodyMutation().GetBody(); b != nil {
			forwarded = b
		}
	}
	headers := func(m map[string]string) *extprocv3.HttpHeaders {
		h := &corev3.HeaderMap{}
		for k, v := range m {
			h.Headers = append(h.Headers, &corev3.HeaderValue{Key: k, RawValue: []byte(v)})
		}
		return &extprocv3.HttpHeaders{Headers: h}
	}
	send(&extprocv3.ProcessingRequest{
		Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(turn("x-request-id", id))},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED, ResponseBodyMode: filterv3.ProcessingMode_BUFFERED},
	})
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: true}}})
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(map[string]string{":status": "200", "content-type": "application/json"})}})
	answer := fmt.Sprintf(`{"type":"message","model":"claude-opus-4-5","usage":{"input_tokens":3,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":50}}`,
		held, tokensOf(forwarded)-held)
	send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte(answer), EndOfStream: true}}})
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) { // the answer has been looked at
		t.Fatal(err)
	}
	return forwarded
}

// conversation is the body of a request after so many steps of the session in scene.
func conversation(t *testing.T, messages []any, n int) []byte {
	t.Helper()
	last := messages[n-1].(map[string]any)["content"].([]any)[0].(map[string]any) //nolint:forcetypeassert // scene makes them.
	last["cache_control"] = map[string]any{"type": "ephemeral"}
	defer delete(last, "cache_control")
	b, err := json.Marshal(map[string]any{"model": "claude-opus-4-5", "max_tokens": 100, "tools": []any{map[string]any{"name": "Read"}}, "messages": messages[:n]})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serveScene plays scene against a server that writes events, and returns the file and the ids of the requests.
func serveScene(t *testing.T, path string) (ids []string, read, written int) {
	t.Helper()
	socket, admin := "unix:"+filepath.Join(t.TempDir(), "s"), "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	clock := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	now := make(chan time.Time, 1)
	now <- clock
	config := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(config, []byte("default: {pipeline: [readlifecycle], ttl: keep}"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		done <- serve(ctx, serverconfig.Sources{File: config, Filters: knownFilters(), Flags: map[string]string{
			"listen": socket, "admin.listen": admin, "restore.listen": "", "state": "memory:", "drain_delay": "0s", "log.level": "error", "deadline": "10s", "events.file": path,
		}}, func() time.Time {
			at := <-now
			now <- at
			return at
		})
	}()
	c, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	var session struct{ Messages []any }
	if err := json.Unmarshal(scene(t), &session); err != nil {
		t.Fatal(err)
	}
	held := 0
	for n := 1; n < len(session.Messages); n += 2 {
		<-now
		clock = clock.Add(10 * time.Second)
		if n == 9 { // a pause, after which nothing is held
			clock, held = clock.Add(30*time.Minute), 0
		}
		now <- clock
		ids = append(ids, fmt.Sprintf("req-%d", n))
		out := exchange(t, extprocv3.NewExternalProcessorClient(c), ids[len(ids)-1], conversation(t, session.Messages, n), held)
		read, written = read+held, written+tokensOf(out)-held
		held = tokensOf(out)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return ids, read, written
}

// TestServerWritesEvents: what a server writes keeps to the published schema, holds neither paths nor content, and says back what
// the provider billed, the move, and what stands for each result.
func TestServerWritesEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	ids, read, written := serveScene(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if err := eventtest.Validate(line); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	for _, secret := range []string{"/src/", "one.go", "line of words", "left out of this transcript", "sk-test", `"s1"`} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("events hold %q", secret)
		}
	}
	s, err := eventlog.Summarize([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	total := &s.Total
	if total.Requests != len(ids) || total.Observed.Responses != len(ids) || total.Observed.Read != read || total.Observed.Write5m != written || total.Observed.Input != 3*len(ids) {
		t.Errorf("%d requests, read %d, written %d; the log says %+v", len(ids), read, written, total)
	}
	if len(s.Sessions) != 1 || len(total.Moves) != 1 || total.Moves[0].Requests == 0 || total.Moves[0].Realised <= 0 || total.Estimated.ByFilter["readlifecycle"] != total.Estimated.Removed {
		t.Errorf("%+v, moves %+v", total, total.Moves)
	}
	if m := &total.Modelled; m.Net <= 0 || !(m.Removal > 0) || m.First.Basis == "" || m.Again.Basis == "" {
		t.Errorf("modelled %+v", m)
	}
	x, err := eventlog.Explain([]string{path}, ids[len(ids)-1])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printLogged(&out, x)
	if len(x.Results) < 3 || x.Results[0].Filter != "readlifecycle" || x.Results[0].Now || x.Results[1].Filter != "" || len(x.Results[1].Gates) == 0 {
		t.Errorf("%s", out.String())
	}
	if t.Failed() || testing.Verbose() {
		printSummary(&out, s)
		t.Logf("%s\n%s", out.String(), text)
	}
}

// A file that cannot be written is no reason not to serve, and is counted.
func TestServesWithoutEvents(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := start(t, func(flags map[string]string) { flags["events.file"] = filepath.Join(blocked, "events.jsonl") })
	if got := e.ask(t, turn(), nil); got["outcome"] != "identity" {
		t.Errorf("got %v", got)
	}
	e.counted(t, `tidemark_events_total{result="failed"} 2`) // the config's and the request's
}
