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

	"github.com/tidemark-dev/tidemark/internal/simprovider"
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
	first                 int // prompt tokens of the longest request
	refused               error
}

// reading is what one turn was billed for.
type reading struct {
	usage   simprovider.Usage
	prompt  int
	removed int // tokens fewer than as the client sent it
	kept    bool
	cost    float64
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
	sim    *simprovider.Sim
	url    string
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
	rec, err := s.send(ctx, w, body, t.at, t.reply)
	if err != nil {
		return nil, err
	}
	r := &reading{usage: rec.Usage, prompt: rec.Prompt, cost: s.sim.Cost(*rec)}
	r.kept = t.pause > 0 || rec.Usage.Read >= w.covered
	w.prompt += rec.Prompt
	w.read += rec.Usage.Read
	w.written += rec.Usage.Write5m + rec.Usage.Write1h
	w.cost += r.cost
	w.first = max(w.first, rec.Prompt)
	w.covered = rec.Usage.Read + rec.Usage.Write5m + rec.Usage.Write1h
	if !r.kept {
		w.broken++
	}
	return r, nil
}

// send posts a body through Envoy and returns what the provider received.
func (s *stage) send(ctx context.Context, w *way, body []byte, at time.Time, reply string) (*simprovider.Received, error) {
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
	all := s.sim.Requests()
	if res.StatusCode != http.StatusOK || len(all) == 0 {
		var e struct{ Error struct{ Message string } }
		if json.Unmarshal(answer, &e) != nil || e.Error.Message == "" {
			e.Error.Message = string(answer)
		}
		return nil, fmt.Errorf("%s: the provider answered %d: %s", w.name, res.StatusCode, e.Error.Message)
	}
	return &all[len(all)-1], nil
}

// dollars is a cost in units of one input token as money.
func dollars(units float64) float64 { return units * dollarsPerMT / 1e6 }
