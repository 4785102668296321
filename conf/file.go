package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Files is what EditFile needs of a file system; vfs.FS has it.
type Files interface {
	MkdirAll(path string) error
	ReadFile(path string) ([]byte, error)
	// WriteFileAtomic writes a temporary file, syncs it, renames it over path and syncs the directory.
	WriteFileAtomic(path string, data []byte) error
}

// EditFile sets keys of the properties file at path and leaves its other lines as they are, comments included. A missing
// file is made. After an error the old file is still there, whole.
func EditFile(files Files, path string, changes map[string]string) error {
	text, err := files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = files.MkdirAll(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("edit configuration: %w", err)
	}
	text, err = EditProperties(text, changes)
	if err != nil {
		return fmt.Errorf("edit configuration %s: %w", path, err)
	}
	if err := files.WriteFileAtomic(path, text); err != nil {
		return fmt.Errorf("edit configuration: %w", err)
	}
	return nil
}
