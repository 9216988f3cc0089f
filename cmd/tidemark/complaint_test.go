package main

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// TestComplaint: whatever an error quotes, as a certificate's names, no terminal obeys it, and its lines stay.
func TestComplaint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab é\n\x1b[2J\a\r\x00\u202e\u009b\ufffd"))).Draw(t, "text")
		said := complaint(errors.New(text))
		if strings.Count(said, "\n") != strings.Count(text, "\n") || strings.ContainsFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Fatalf("%q", said)
		}
	})
	if said := complaint(errors.New("line 1: é\nline 2\x1b[2J")); said != "line 1: é\nline 2 [2J" {
		t.Errorf("%q", said)
	}
}
