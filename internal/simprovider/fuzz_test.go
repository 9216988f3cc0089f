package simprovider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// FuzzBody: no body makes the simulator panic; invalid JSON is refused as such and valid JSON never is, except for what the
// provider's parser refuses too; usage adds up, and the second of two equal requests is read where the first was cached.
func FuzzBody(f *testing.F) {
	for _, c := range append(append(shapeRefusals(), markRefusals()...), turnRefusals()...) {
		if len(c.body) < 4096 {
			f.Add(c.body)
		}
	}
	f.Add(conv(binding, `"tools":[{"name":"a","input_schema":{}}],"system":[`+sized("s", 600, mark1h)+`],`, user(hi), assistant(use("a")),
		user(result("a", mark5m))))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := New(Options{})
		res := s.Call(body, nil, start)
		refused := res.Err != nil && strings.HasPrefix(res.Err.Message, "The request body is not valid JSON: ")
		if valid := json.Valid(body); !valid && (!refused || res.Status != 400) {
			t.Errorf("invalid JSON: %d %v", res.Status, res.Err)
		} else if valid && refused && strings.HasSuffix(res.Err.Message, simkit.ErrSyntax.Error()) {
			t.Errorf("valid JSON: %v", res.Err)
		}
		if res.Err != nil {
			if res.Status < 400 || res.Err.Message == "" || res.Usage != (Usage{}) {
				t.Errorf("%+v", res)
			}
			return
		}
		u := res.Usage
		if u.Input < 0 || u.Write5m < 0 || u.Write1h < 0 || u.Input+u.Read+u.Write5m+u.Write1h != res.Prompt || u.Read != 0 {
			t.Errorf("usage %+v of a prompt of %d", u, res.Prompt)
		}
		if n := s.Cached(body, start); n != u.Write5m+u.Write1h {
			t.Errorf("wrote %d, cached %d", u.Write5m+u.Write1h, n)
		}
		if again := s.Call(body, nil, start); again.Err != nil || again.Usage.Read != u.Write5m+u.Write1h || again.Usage.Input != u.Input {
			t.Errorf("first %+v, again %+v (%v)", u, again.Usage, again.Err)
		}
	})
}
