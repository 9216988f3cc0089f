//go:build linux || darwin

package badgerdb

import "golang.org/x/sys/unix"

// freeSpace is how many bytes of the disk of a directory this process may still fill.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
