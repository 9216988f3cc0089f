package serverconfig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a directory must be quiet before the file is read: editors and Kubernetes write in steps.
const settle = 200 * time.Millisecond

// Watch calls changed, from its own goroutine, after the content of the file became another than what was loaded, and after every
// value on demand (a SIGHUP). It returns when ctx ends, or with an error if the directory cannot be watched.
//
// The directory is watched, not the file: a file that is replaced by renaming, or through the symbolic links of a
// Kubernetes ConfigMap, is another file.
func Watch(ctx context.Context, file string, loaded Digest, demand <-chan os.Signal, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch config: %w", err)
	}
	defer w.Close() //nolint:errcheck // nothing was written
	if err := w.Add(filepath.Dir(file)); err != nil {
		return fmt.Errorf("watch config: %w", err)
	}
	last := loaded
	quiet := time.NewTimer(settle) // the file may have changed before the watch began
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-demand:
			last = digestOf(file)
			changed()
		case <-w.Events:
			quiet.Reset(settle)
		case _, open := <-w.Errors: // events were lost
			if !open {
				return nil
			}
			quiet.Reset(settle)
		case <-quiet.C:
			if d := digestOf(file); d != last {
				last = d
				changed()
			}
		}
	}
}

// Digest tells contents of a file apart. Zero is that of a file that is not there.
type Digest [sha256.Size]byte

func digest(content []byte) Digest { return sha256.Sum256(content) }

func digestOf(file string) (d Digest) {
	content, err := os.ReadFile(file)
	if err != nil {
		return d
	}
	return digest(content)
}
