package simkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Headers that steer one request.
const (
	HeaderNow    = "X-Sim-Now"
	HeaderStatus = "X-Sim-Status"
	HeaderReply  = "X-Sim-Reply"
	HeaderDelay  = "X-Sim-Delay"
	HeaderPieces = "X-Sim-Pieces"
)

// MaxDelay is the most that x-sim-delay can ask for.
const MaxDelay = 5 * time.Second

// Request is what a scripted model is asked.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any // decoded by encoding/json, numbers as json.Number
}

// Script answers in place of the model: the content in the form that x-sim-reply has, or false for the simulator's own
// answer. It is called while the simulator is locked and must not call it.
type Script func(Request) (content json.RawMessage, ok bool)

// Ask asks the script, if there is one, with a body that is a JSON object. Without an answer the content is empty.
func (s Script) Ask(path string, body []byte, h http.Header) (content string, ok bool) {
	if s == nil {
		return "", false
	}
	req := Request{Path: path, Header: h}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&req.Body) != nil {
		return "", false
	}
	raw, ok := s(req)
	if !ok {
		return "", false
	}
	return string(raw), true
}

// Delay is the delay that a request asks for, 0 without one.
func Delay(h http.Header) (time.Duration, error) {
	text := h.Get(HeaderDelay)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("read delay: %w", err)
	}
	return min(max(d, 0), MaxDelay), nil
}

// errStatus is returned for a status that is no refusal.
var errStatus = errors.New("want a status from 400 to 599")

// Status is the status that a request asks to be refused with, 0 without one.
func Status(h http.Header) (int, error) {
	text := h.Get(HeaderStatus)
	if text == "" {
		return 0, nil
	}
	status, err := strconv.Atoi(text)
	if err != nil || status < 400 || status > 599 {
		return 0, errStatus
	}
	return status, nil
}

// Time is when a request arrives: as its header says, else now.
func Time(h http.Header, now func() time.Time) (time.Time, error) {
	text := h.Get(HeaderNow)
	if text == "" {
		return now(), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}

// Wait lets the delay pass; false if the client went away.
func Wait(req *http.Request, delay time.Duration) bool {
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-req.Context().Done():
		return false
	}
}

// WriteJSON answers with a JSON value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "marshal answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that went away is its own affair
}
