package envoy_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"
)

func newReq(t *testing.T, p *product, a *agent) (*http.Request, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL("/duplex/v1/messages"), bytes.NewReader(a.body()))
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-sim-now", a.at.Format(time.RFC3339Nano))
	return req, err
}
