package binaries

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Stamp is a hash of everything that decides what is built: settings, files, and all Go files of folders. Paths are told relative to
// root, so that it is the same in every checkout.
func Stamp(root, settings string, paths ...string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, settings)
	for _, start := range paths {
		err := filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path != start && filepath.Ext(path) != ".go" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			fmt.Fprintf(hash, "%s %d\n", filepath.ToSlash(relative), len(content))
			_, err = io.Copy(hash, bytes.NewReader(content))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
