package extproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

const (
	unixPrefix = "unix:"
	socketMode = 0o660 // Envoy runs as another user of the same group
)

// Listen opens addr: "host:port", where port 0 picks a free one, or "unix:/path". A socket that a dead process left behind is
// removed; one that is in use, or a file that is no socket, is an error.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, unixPrefix)
	if !unix {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		return l, nil
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

// removeStale removes a socket that nobody answers on.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for an old socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("the file is no socket")
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errors.New("the socket is in use"), c.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove an old socket: %w", err)
	}
	return nil
}
