//go:build linux || darwin

package badgerdb

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps others from opening the store of a directory until what it returns is closed.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errInUse
	}
	if err != nil {
		_ = f.Close() // the reason is known already
		return nil, err
	}
	return f, nil
}

// freeSpace is how many bytes of the disk of a directory this process may still fill.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
