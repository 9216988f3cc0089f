package simprovider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// TestScripted: a model that is a function says what the function says, a header goes first, and what it leaves open is said
// by the simulator.
func TestScripted(t *testing.T) {
	s := New(Options{Reply: func(r simkit.Request) (json.RawMessage, bool) {
		model, _ := r.Body["model"].(string)
		return json.RawMessage(`[{"type":"tool_use","name":"` + model + `","input":{"path":"` + r.Path + `"}}]`), r.Header.Get("X-Say") != ""
	}})
	body := conv(modern, "", user(hi))
	for _, c := range []struct {
		header     http.Header
		want, stop string
	}{
		{http.Header{"X-Say": {"1"}}, `"name":"` + modern + `","input":{"path":"/v1/messages"},"id":"toolu_`, "tool_use"},
		{nil, `"text":"Understood."`, "end_turn"},
		{http.Header{"X-Say": {"1"}, simkit.HeaderReply: {`[` + hi + `]`}}, hi, "end_turn"},
	} {
		res := must(t, s, body, c.header, start)
		if len(res.Content) != 1 || !strings.Contains(string(res.Content[0]), c.want) || res.StopReason != c.stop {
			t.Errorf("%s %s, want %s", res.Content, res.StopReason, c.want)
		}
	}
	if bad := New(Options{Reply: func(simkit.Request) (json.RawMessage, bool) { return nil, true }}).Call(body, nil, start); bad.Err != nil {
		t.Errorf("an empty answer is the simulator's own: %v", bad.Err)
	}
}
