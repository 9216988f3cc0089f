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

// way is one of the ways in which the session is played. Each is a workspace of its own at the provider.
type way struct {
	name   string
	path   string // of its route
	change func([]byte) ([]byte, error)

	turns   []*reading
	covered int // tokens that the provider holds of the last request
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
	return float64(u.Input) + readRate*float64(u.Read) + shortRate*float64(u.Creation.Short) + longRate*float64(u.Creation.Long)
}

// reading is what one turn was billed for.
type reading struct {
	usage
	kept bool // all that the provider held was read, or its life was over
}

// total is what a way was billed for.
type total struct {
	prompt, read int // tokens
	broken       int // turns on which a held prefix was lost
	lifts        int // turns that wrote for an hour, where the client asks for five minutes
	cost         float64
}

func (w *way) total() (t total) {
	for _, r := range w.turns {
		t.prompt += r.prompt()
		t.read += r.Read
		t.cost += r.cost()
		if !r.kept {
			t.broken++
		}
		if r.Creation.Long > 0 {
			t.lifts++
		}
	}
	return t
}

// ways are those that need no tidemark, and those that do.
func ways(tidemark ...*way) []*way {
	return append([]*way{{name: "pass-through", path: "/off"}, {name: "naive removal", path: "/off", change: naive}}, tidemark...)
}

// lossless is the way whose bodies differ in nothing but cache_control.
const lossless = "lossless"

// presets are the ways through the routes of envoy/bootstrap.yaml.
func presets() []*way {
	return ways(&way{name: lossless, path: "/lossless"}, &way{name: "default", path: "/default"})
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
	r := &reading{usage: *u, kept: t.pause > 0 || u.Read >= w.covered}
	w.turns = append(w.turns, r)
	w.covered = u.Read + u.written()
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
