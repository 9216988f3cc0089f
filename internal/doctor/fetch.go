package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/ask"
)

// Bounds of answers, in bytes. A config dump of a big mesh has tens of MB.
const (
	maxDump   = 64 << 20
	maxAnswer = 16 << 20
)

// endpoint is an admin interface.
type endpoint struct{ *ask.Endpoint }

// reach prepares to ask an admin interface at an address as [Options] has it.
func (d *doctor) reach(addr, token string) (endpoint, error) {
	e, err := ask.New(addr, token, d.Timeout)
	return endpoint{e}, err
}

// get returns the answer to a path. An answer that is not 200 is an error unless more of them are accepted.
func (e endpoint) get(ctx context.Context, path string, limit int64, accepted ...int) (body []byte, status int, err error) {
	body, status, err = e.Get(ctx, path, limit)
	if err == nil && status != http.StatusOK && !slices.Contains(accepted, status) {
		err = fmt.Errorf("read %s: status %d", path, status)
	}
	return body, status, err
}
