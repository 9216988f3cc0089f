package badgerdb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
)

const keySize = 32 // AES-256

var (
	errNoKey    = errors.New("its files are encrypted, or its KEYREGISTRY is damaged, and no key is given; they were left as they are")
	errWrongKey = errors.New("none of the keys that are given opens its KEYREGISTRY; its files were left as they are: give the key that they were written under, too")
	errLostKey  = errors.New("its KEYREGISTRY is gone or lacks a key that its files were written under, or those files are damaged; restore KEYREGISTRY from a backup")
)

// checkKeys checks the keys of [Options].
func checkKeys(keys [][]byte) error {
	for i, key := range keys {
		if len(key) != keySize {
			return fmt.Errorf("key %d has %d bytes, it needs %d", i+1, len(key), keySize)
		}
	}
	return nil
}

// firstKey is the key in use, nil if files are not encrypted.
func firstKey(keys [][]byte) []byte {
	if len(keys) == 0 {
		return nil
	}
	return keys[0]
}

// openRegistry makes sure that the registry of data keys, if there is one, is under the first key, and re-writes it if it is
// under another one or under none. It changes nothing where no key opens it.
func openRegistry(dir string, keys [][]byte) error {
	_, err := os.Stat(filepath.Join(dir, badger.KeyRegistryFileName))
	if errors.Is(err, os.ErrNotExist) { // Badger makes it
		return needsNone(dir)
	}
	if err != nil {
		return err
	}
	tried := slices.Concat(keys, [][]byte{nil})
	for i, key := range tried {
		registry, err := readRegistry(dir, key)
		if errors.Is(err, badger.ErrEncryptionKeyMismatch) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read KEYREGISTRY: %w", err)
		}
		if i == 0 {
			return nil
		}
		if err := badger.WriteKeyRegistry(registry, badger.KeyRegistryOptions{Dir: dir, EncryptionKey: keys[0]}); err != nil {
			return fmt.Errorf("write KEYREGISTRY: %w", err)
		}
		return nil
	}
	if len(keys) == 0 {
		return errNoKey
	}
	return errWrongKey
}

// needsNone fails if a log was written under a key of a registry. Every store has logs, each of which begins with the number
// of its key.
func needsNone(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			var key [8]byte
			_, err = io.ReadFull(f, key[:])
			_ = f.Close() // it was only read
			if err == nil && key != [8]byte{} {
				return errLostKey
			}
		}
	}
	return nil
}

func readRegistry(dir string, key []byte) (registry *badger.KeyRegistry, err error) {
	err = guard(func() (err error) {
		registry, err = badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: dir, ReadOnly: true, EncryptionKey: key})
		return err
	})
	return registry, err
}

// dataKeys returns how to find the key that a table was written under; it is nil for a table that is not encrypted.
func dataKeys(o badger.Options) (of func(table uint64) (*pb.DataKey, error), err error) {
	if len(o.EncryptionKey) == 0 {
		return func(uint64) (*pb.DataKey, error) { return nil, nil }, nil //nolint:nilnil // no key: not encrypted
	}
	registry, err := readRegistry(o.Dir, o.EncryptionKey)
	if err != nil {
		return nil, fmt.Errorf("read KEYREGISTRY: %w", err)
	}
	manifest, err := readManifest(o)
	if err != nil {
		return nil, fmt.Errorf("read MANIFEST: %w", err)
	}
	return func(table uint64) (*pb.DataKey, error) {
		key, err := registry.DataKey(manifest.Tables[table].KeyID)
		if err != nil {
			return nil, errors.Join(errLostKey, err)
		}
		return key, nil
	}, nil
}

func readManifest(o badger.Options) (m badger.Manifest, err error) {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }() // it was only read
	err = guard(func() (err error) {
		m, _, err = badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
		return err
	})
	return m, err
}
