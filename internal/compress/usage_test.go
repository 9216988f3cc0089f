package compress_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// The provider's own words, whole or in part, in its format or the gateway's; once, and not for ever.
func TestUsage(t *testing.T) {
	d := open(t, nil, full(t))
	for _, c := range []struct {
		name, said string
		status     int
		want       *pipeline.Usage
	}{
		{"a whole response", `"response":{"id":"chatcmpl-1","model":"gpt-5","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":64}}}`, 204, &pipeline.Usage{Input: 36, Read: 64, Output: 7}},
		{"usage alone", `"usage":{"prompt_tokens":100,"completion_tokens":7}`, 204, &pipeline.Usage{Input: 100, Output: 7}},
		{"another format", `"format":"anthropic.messages","usage":{"input_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":10},"output_tokens":3}`, 204, &pipeline.Usage{Input: 5, Read: 90, Write5m: 10, Output: 3}},
		{"a refusal", `"status":529`, 204, nil},
		{"nothing", `"status":200`, 422, nil},
		{"no usage", `"response":{"id":"x"}`, 422, nil},
	} {
		id := d.compress(liteLLM, "x-tidemark-session", c.name).Get("tidemark.id").Str
		said := fmt.Appendf(nil, `{"id":%q,%s}`, id, c.said)
		d.mu.Lock()
		d.billed = nil
		d.mu.Unlock()
		status, got, _ := d.post("/v1/usage", said)
		if status != c.status {
			t.Errorf("%s: %d %s", c.name, status, got.Raw)
			continue
		}
		again, _, _ := d.post("/v1/usage", said)
		if want := map[int]int{204: http.StatusNotFound, 422: 422}[c.status]; again != want {
			t.Errorf("%s, again: %d", c.name, again)
		}
		if status != http.StatusNoContent {
			continue
		}
		d.eventually(c.name, func() bool { return d.billed != nil })
		d.mu.Lock()
		if diff := cmp.Diff(c.want, d.billed.Usage); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		d.mu.Unlock()
	}
	id := d.compress(liteLLM, "x-tidemark-session", "s").Get("tidemark.id").Str
	d.pause(61 * time.Minute)
	if status, _, _ := d.post("/v1/usage", fmt.Appendf(nil, `{"id":%q,"status":500}`, id)); status != http.StatusNotFound {
		t.Errorf("after an hour: %d", status)
	}
}
