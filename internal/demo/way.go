package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// way is one of the three ways in which the session is played. Each is a workspace of its own at the provider.
type way struct {
	name   string
	path   string // of its route
	change func([]byte) ([]byte, error)

	prompt, read, written int // tokens, all turns together
	cost                  float64
	covered               int // tokens that the provider holds of the last request
	broken                int // turns on which a held prefix was lost
	longest               int // prompt tokens of the longest request
}

// usage is what the provider says that a request was billed for, in tokens.
type usage struct {
	Input    int `json:"input_tokens"`
	Read     int `json:"cache_read_input_tokens"`
	Creation struct {
		Short int `json:"ephemeral_5m_input_tokens"`
		Long  int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

func (u *usage) written() int { return u.Creation.Short + u.Creation.Long }
func (u *usage) prompt() int  { return u.Input + u.Read + u.written() }

// cost is the price in units of one uncached input token.
func (u *usage) cost() float64 {
	return float64(u.Input) + 0.1*float64(u.Read) + 1.25*float64(u.Creation.Short) + 2*float64(u.Creation.Long)
}

// reading is what one turn was billed for.
type reading struct {
	usage
	removed int // tokens fewer than as the client sent it
	kept    bool
}

func ways() []*way {
	return []*way{
		{name: "pass-through", path: "/off"},
		{name: "naive removal", path: "/off", change: naive},
		{name: "tidemark", path: ""},
	}
}

// stage is what the session is played on.
type stage struct {
	url    string // of Envoy
	client *http.Client
	clock  *clock
}

// play sends one turn of the session one way.
func (s *stage) play(ctx context.Context, w *way, t *turn) (*reading, error) {
	body := t.body
	if w.change != nil {
		var err error
		if body, err = w.change(body); err != nil {
			return nil, err
		}
	}
	u, err := s.send(ctx, w, body, t.at, t.reply)
	if err != nil {
		return nil, err
	}
	r := &reading{usage: *u}
	r.kept = t.pause > 0 || u.Read >= w.covered
	w.prompt += u.prompt()
	w.read += u.Read
	w.written += u.written()
	w.cost += u.cost()
	w.longest = max(w.longest, u.prompt())
	w.covered = u.Read + u.written()
	if !r.kept {
		w.broken++
	}
	return r, nil
}

// send posts a body through Envoy and returns what the provider says of it.
func (s *stage) send(ctx context.Context, w *way, body []byte, at time.Time, reply string) (*usage, error) {
	if err := s.clock.set(at); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+w.path+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-api-key", "sk-demo-"+w.name)
	req.Header.Set("x-claude-code-session-id", "demo")
	req.Header.Set("x-sim-now", at.Format(time.RFC3339Nano))
	req.Header.Set("x-sim-reply", reply)
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	answer, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the provider answered %d: %s", w.name, res.StatusCode, answer)
	}
	return usageOf(answer)
}

// usageOf reads the usage of an answer: a JSON message, or the first event of a stream.
func usageOf(answer []byte) (*usage, error) {
	var message struct {
		Usage   usage
		Message *struct{ Usage usage }
	}
	if i := bytes.Index(answer, []byte("data: ")); i >= 0 {
		answer, _, _ = bytes.Cut(answer[i+len("data: "):], []byte("\n"))
	}
	if err := json.Unmarshal(answer, &message); err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	if message.Message != nil {
		return &message.Message.Usage, nil
	}
	return &message.Usage, nil
}

// dollars is a cost in units of one input token as money.
func dollars(units float64) float64 { return units * dollarsPerMT / 1e6 }
