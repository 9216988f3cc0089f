package summarize_test

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/summarize"
)

// The credential goes over https, and over http within the host; elsewhere none goes, which is said once for every host.
func TestTheCredentialStaysOffPlainNetworks(t *testing.T) {
	headers := make(chan http.Header, 1)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		api := filters.OpenAI
		if r.Header.Get("Anthropic-Version") != "" {
			api = filters.Anthropic
		}
		io.WriteString(w, says(api, good))
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	for url, sent := range map[string]bool{
		"https://example.com/v1":      true, // whom the certificate names
		"http://127.0.0.1/v1":         true,
		"http://127.8.9.1/v1":         true,
		"http://[::1]:80/v1":          true,
		"http://localhost/v1":         true,
		"http://models.example/v1":    false,
		"http://10.0.0.1/v1":          false,
		"http://0.0.0.0/v1":           false,
		"http://127.0.0.1.example/v1": false,
		"http://localhost.example/v1": false,
		"http://[2001:db8::1]/v1":     false,
	} {
		t.Run(url, func(t *testing.T) {
			d := newDesk(t, credential)
			to := plain
			if strings.HasPrefix(url, "https") {
				to = secure
			}
			d.DialTo(to.Listener.Addr().String(), pool)
			for n, api := range []string{filters.OpenAI, filters.Anthropic} {
				d.ask(keyOf(url, api, n), source, summarize.Ready)
				h := <-headers
				if got := h.Get("Authorization") + h.Get("X-Api-Key"); sent != strings.Contains(got, credential) || !sent && got != "" {
					t.Errorf("%s: sent %q", api, got)
				}
			}
			want := 1
			if sent {
				want = 0
			}
			if log := d.log.String(); strings.Count(log, "credential not sent") != want || strings.Contains(log, credential) {
				t.Errorf("log: %s", log)
			}
		})
	}
	d := newDesk(t, "")
	d.DialTo(plain.Listener.Addr().String(), nil)
	d.ask(keyOf("http://models.example/v1", filters.OpenAI, 1), source, summarize.Ready)
	if <-headers; d.log.String() != "" {
		t.Errorf("log without a credential: %s", d.log)
	}
}

// choosy is a server that takes one of the members that bound an answer, and lists those that it was sent.
func choosy(t *testing.T, takes string, status int, refusal string) (url string, sent func() []string) {
	t.Helper()
	var got []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		member := "max_tokens"
		if _, ok := body[member]; !ok {
			member = "max_completion_tokens"
		}
		if got = append(got, member); body[member] != 1024.0 {
			t.Errorf("%s: %v", member, body[member])
		}
		if member == takes {
			io.WriteString(w, says(filters.OpenAI, good))
			return
		}
		w.WriteHeader(status)
		io.WriteString(w, strings.ReplaceAll(refusal, "MEMBER", member))
	})
	return s.URL, func() []string { return got }
}

// A server that refuses the bound of the answer by name is asked once more with the other one, within the same attempt, and
// with that from then on.
func TestServersThatTakeMaxTokensAlone(t *testing.T) {
	const older, newer = "max_tokens", "max_completion_tokens"
	for name, c := range map[string]struct {
		takes   string
		status  int
		refusal string
		want    summarize.Outcome
		sent    []string // in two attempts
	}{
		"newer":       {newer, 0, "", summarize.Ready, []string{newer, newer}},
		"older, 422":  {older, 422, `{"message":{"detail":[{"type":"extra_forbidden","loc":["body","MEMBER"]}]}}`, summarize.Ready, []string{newer, older, older}},
		"older, 400":  {older, 400, `{"message":"[{'type': 'extra_forbidden', 'loc': ('body', 'MEMBER')}]"}`, summarize.Ready, []string{newer, older, older}},
		"unnamed":     {older, 400, `{"message":"bad request"}`, summarize.Failed, []string{newer, newer}},
		"unavailable": {older, 503, `MEMBER`, summarize.Failed, []string{newer, newer}},
		"neither":     {"", 400, `MEMBER`, summarize.Failed, []string{newer, older, newer, older}},
	} {
		t.Run(name, func(t *testing.T) {
			url, sent := choosy(t, c.takes, c.status, c.refusal)
			d := newDesk(t, credential)
			for n := range 2 {
				d.ask(keyOf(url, filters.OpenAI, n), source, c.want)
				d.pass(time.Minute)
			}
			if got := sent(); !slices.Equal(got, c.sent) {
				t.Errorf("sent %v, want %v", got, c.sent)
			}
		})
	}
}

// What is learned of one model of a server is not believed of another, and forgotten when it is not so any more.
func TestServersThatTakeMaxTokensAreKnownByModel(t *testing.T) {
	takes := "max_tokens"
	var got []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		member := "max_tokens"
		if strings.Contains(string(body), `"max_completion_tokens"`) {
			member = "max_completion_tokens"
		}
		if got = append(got, member); member == takes {
			io.WriteString(w, says(filters.OpenAI, good))
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, "Unsupported parameter: '"+member+"' is not supported with this model.")
	})
	d := newDesk(t, credential)
	k := keyOf(s.URL, filters.OpenAI, 1)
	d.ask(k, source, summarize.Ready)
	takes = "max_completion_tokens"
	other := k
	other.By.Model = "another"
	d.ask(other, source, summarize.Ready)
	k.Block[7] = 1
	d.ask(k, source, summarize.Ready)
	k.Block[7] = 2
	d.ask(k, source, summarize.Ready)
	const older, newer = "max_tokens", "max_completion_tokens"
	if want := []string{newer, older, newer, older, newer, newer}; !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

func TestAnswersOfMessages(t *testing.T) {
	const usage = `,"usage":{"input_tokens":9,"output_tokens":4}}`
	for body, want := range map[string]string{ // empty: refused
		`{"content":[{"type":"text","text":" a"},{"type":"text","text":"b "}],"stop_reason":"end_turn"`:           "ab",
		`{"content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence"`:                                   "a",
		`{"content":[{"type":"text","text":"a"}]`:                                                                 "a",
		`{"content":[{"type":"thinking","thinking":"x"},{"type":"redacted_thinking"},{"type":"text","text":"a"}]`: "a",
		`{"content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens"`:                                      "",
		`{"content":[{"type":"text","text":"a"}],"stop_reason":"tool_use"`:                                        "",
		`{"content":[{"type":"text","text":"a"}],"stop_reason":"refusal"`:                                         "",
		`{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"Bash"}],"stop_reason":"end_turn"`:      "",
		`{"content":[{"type":"image"},{"type":"text","text":"a"}],"stop_reason":"end_turn"`:                       "",
		`{"content":[{"text":"a"}],"stop_reason":"end_turn"`:                                                      "",
		`{"content":[{"type":"text"},{"type":"text","text":"a"}],"stop_reason":"end_turn"`:                        "",
		`{"content":[{"type":"thinking","thinking":"x"}],"stop_reason":"end_turn"`:                                "",
	} {
		text, input, output, err := summarize.ReadAnswer([]byte(body+usage), true)
		if text != want || (err == nil) != (want != "") || input != 9 || output != 4 {
			t.Errorf("%s: %q, %d, %d, %v", body, text, input, output, err)
		}
	}
}
