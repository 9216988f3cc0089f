// Package simtest is what the tests of every simulated provider need. It promises that a request went over a real connection.
package simtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
)

// Answer is what came back over the connection.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends one request, and fails the test where no whole answer comes back.
func Do(tb testing.TB, method, url string, body []byte, header map[string]string) Answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	return Answer{res.StatusCode, res.Header, b}
}
