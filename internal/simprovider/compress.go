package simprovider

import (
	"errors"
	"io"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// readBody reads the body of a request, and returns it without its content coding and with the headers that it then has. A coding
// that is not known stays.
func readBody(req *http.Request) ([]byte, http.Header, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, nil, err
	}
	plain, err := simkit.Expand(body, req.Header.Get("Content-Encoding"), maxBody+1)
	if errors.Is(err, simkit.ErrCoding) {
		return body, req.Header, nil
	}
	header := req.Header.Clone()
	header.Del("Content-Encoding")
	return plain, header, err
}
