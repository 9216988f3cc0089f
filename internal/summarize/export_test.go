package summarize

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Queued is what waits of a text that is to be summarised.
func Queued(k pipeline.SummaryKey, text string) (part string, cut bool) {
	j := newJob(k, text)
	return j.text, j.cut
}

// DialTo makes a worker connect to one address, whatever host it asks and whatever the environment says, and trust certificates of a pool.
func (w *Worker) DialTo(address string, pool *x509.CertPool) {
	t := w.client.Transport.(*http.Transport)
	t.Proxy, t.TLSClientConfig.RootCAs = nil, pool
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
}

// Fit cuts a text to so many estimated tokens.
func Fit(text string, tokens int) (short string, cut bool) { return fit(text, tokens) }

// ReadAnswer reads an answer of either API.
func ReadAnswer(body []byte, anthropic bool) (text string, input, output int, err error) {
	read := readOpenAI
	if anthropic {
		read = readAnthropic
	}
	a, err := read(body)
	return a.text, a.input, a.output, err
}
