package access

import (
	"fmt"
	"net/http"
	"strconv"
)

// Internal is the type of the answer to a request whose handler panicked.
const Internal = "internal"

// Write answers with JSON, and says whether it went out.
func Write(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return http.NewResponseController(w).Flush()
}

// Refuse answers with an error: {"error": {"type": kind, "message": message}}. Both must be texts of ours, that quote nothing.
func Refuse(w http.ResponseWriter, status int, kind, message string) {
	_ = Write(w, status, fmt.Appendf(nil, `{"error":{"type":%q,"message":%q}}`, kind, message)) // who went away needs no error
}

// answer knows whether an answer has begun.
type answer struct {
	http.ResponseWriter

	began bool
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	a.began = a.began || status >= http.StatusOK // before that others may follow
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	a.began = true
	return a.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher], for handlers that look for it.
func (a *answer) Flush() { _ = a.FlushError() } // it has no error to return

// FlushError is what [http.ResponseController] looks for.
func (a *answer) FlushError() error {
	a.began = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is what [http.ResponseController] looks for.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
