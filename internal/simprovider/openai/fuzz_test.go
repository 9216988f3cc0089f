package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzBody: no body makes the simulator panic; invalid JSON is refused as such; usage adds up, and the second of two equal
// requests reads what the first left.
func FuzzBody(f *testing.F) {
	for _, c := range append(append(chatRefusals(), itemRefusals()...), bodyRefusals()...) {
		if len(c.body) < 4096 {
			f.Add(c.path == pathChat, c.body)
		}
	}
	f.Add(false, conv(modern, `"tools":[{"type":"function","name":"a"}],"instructions":"x",`, says("user", input("a", 1100, marked)), call("a"), output("a", "x")))
	f.Add(true, talk(plain, "", says("user", sized("text", "a", 1100)), calls("a"), tool("a", "x")))
	f.Fuzz(func(t *testing.T, isChat bool, body []byte) {
		path := pathResponses
		if isChat {
			path = pathChat
		}
		s := New(Options{})
		res := s.Call(path, body, nil, start)
		refused := res.Err != nil && strings.HasPrefix(res.Err.Message, badJSON)
		if valid := json.Valid(body); !valid && (!refused || res.Status != 400) {
			t.Errorf("invalid JSON: %d %v", res.Status, res.Err)
		}
		if res.Err != nil {
			if res.Status < 400 || res.Err.Message == "" || res.Usage != (Usage{}) {
				t.Errorf("%+v", res)
			}
			return
		}
		u := res.Usage
		if u.Input < 0 || u.Write < 0 || u.Read != 0 || u.Input+u.Write != res.Prompt {
			t.Errorf("usage %+v of a prompt of %d", u, res.Prompt)
		}
		cached := s.Cached(path, body, start)
		again := s.Call(path, body, nil, start)
		if again.Err != nil || again.Usage.Read != cached || again.Usage.Input+again.Usage.Read != res.Prompt || again.Usage.Read < u.Write {
			t.Errorf("first %+v, %d cached, again %+v (%v)", u, cached, again.Usage, again.Err)
		}
	})
}
