package demo

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUnmarked: lifetimes are no difference, and everything else is one.
func TestUnmarked(t *testing.T) {
	turns := session()
	body := turns[len(turns)-1].body
	lifted := bytes.ReplaceAll(body, []byte(`{"type":"ephemeral"}`), []byte(`{"type":"ephemeral","ttl":"1h"}`))
	if bytes.Equal(lifted, body) || !bytes.Equal(unmarked(lifted), unmarked(body)) {
		t.Error("a lifted body counts as changed")
	}
	for _, word := range []string{"tool_use_id", "window"} {
		other := bytes.Replace(lifted, []byte(word), []byte("x"), 1)
		if bytes.Equal(unmarked(other), unmarked(body)) {
			t.Errorf("a body without a %s counts as the client's", word)
		}
	}
}

// TestSession: its pauses are a person's, most of them between the two lifetimes of the cache.
func TestSession(t *testing.T) {
	turns := session()
	if !slices.IsSortedFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) }) {
		t.Error("time runs backwards")
	}
	short, long := 0, 0
	for i := range turns {
		switch p := turns[i].pause; {
		case p > time.Hour:
			long++
		case p > 5*time.Minute:
			short++
		case p != 0:
			t.Errorf("turn %d: a pause of %v empties no cache", i, p)
		}
		if strings.Count(string(turns[i].body), `"cache_control"`) != 3 {
			t.Errorf("turn %d: not marked as a coding agent marks", i)
		}
	}
	if short <= long || long == 0 {
		t.Errorf("%d pauses of 5 to 60 minutes, %d longer ones", short, long)
	}
}
