package envoy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/observe"
)

// BenchmarkAdapter measures what the adapter adds to a request through a real Envoy, over one HTTP/1.1 connection, with an
// engine that answers at once: "off" never meets it, "left" is not tidemark's, the others are answered unchanged or changed.
//
//	go test -run '^$' -bench Adapter -count 10 ./envoy > new.txt && benchstat new.txt
func BenchmarkAdapter(b *testing.B) {
	env := envoytest.Start(b, envoytest.Options{
		Upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
		Server: &extproc.Options{
			Engine: toy{}, Admit: admitToy, Result: observe.Result, Account: observe.Account, Observer: newRecorder(), Deadline: shippedDeadline,
		},
	})
	client := envoytest.Client(b, false)
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := bytes.Repeat([]byte("b"), size)
		for _, c := range []struct{ what, path, kind, toy string }{
			{"off", "/off/v1/messages", "application/json", ""},
			{"left", "/v1/messages", "text/plain", ""},
			{"buffered-unchanged", "/v1/messages", "application/json", ""},
			{"buffered-changed", "/v1/messages", "application/json", toyMark},
			{"duplex-unchanged", "/duplex/v1/messages", "application/json", ""},
			{"duplex-changed", "/duplex/v1/messages", "application/json", toyMark},
		} {
			b.Run(fmt.Sprintf("size-%dk/%s", size>>10, c.what), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, env.URL(c.path), bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					r.Header.Set("content-type", c.kind)
					r.Header.Set(toyHeader, c.toy)
					res, err := client.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
						b.Fatal(res.Status, err)
					}
					_ = res.Body.Close()
				}
			})
		}
	}
}
