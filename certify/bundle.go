package certify

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
)

// Bundle is a contract's file and those beside it that it names, so that another process can
// read the same contract.
type Bundle struct {
	File  string            // which of the files is the contract
	Files map[string]string // text by name
}

// Load reads the contract at path and returns it with its files. It fails as [contract.Load] does.
func Load(path string) (*contract.Contract, Bundle, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		c, err := contract.Load(path) // which says what is wrong
		return c, Bundle{}, err
	}
	defer root.Close()
	seen := recorder{FS: root.FS(), files: map[string]string{}}
	name := filepath.Base(path)
	if _, err := seen.Open(name); err != nil {
		c, err := contract.Load(path)
		return c, Bundle{}, err
	}
	c, err := contract.Parse(path, []byte(seen.files[name]), seen)
	return c, Bundle{File: name, Files: seen.files}, err
}

// Contract reads the contract from its files.
func (b Bundle) Contract() (*contract.Contract, error) {
	text, ok := b.Files[b.File]
	if !ok {
		return nil, onejob.Errorf(onejob.CodeInternal, "contract %q is not among its files", b.File)
	}
	return contract.Parse(b.File, []byte(text), folder(b.Files))
}

// recorder keeps what is read.
type recorder struct {
	fs.FS
	files map[string]string
}

// mostBytes bounds a file, as package contract does.
const mostBytes = 4<<20 + 1

// Open implements [fs.FS].
func (r recorder) Open(name string) (fs.File, error) {
	file, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostBytes))
	if err != nil {
		return nil, err
	}
	r.files[name] = string(text)
	return &memoryFile{name: name, Reader: bytes.NewReader(text), size: int64(len(text))}, nil
}

// folder is a folder in memory.
type folder map[string]string

// Open implements [fs.FS].
func (f folder) Open(name string) (fs.File, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{name: name, Reader: bytes.NewReader([]byte(text)), size: int64(len(text))}, nil
}

// memoryFile is a file that was read.
type memoryFile struct {
	*bytes.Reader
	name string
	size int64
}

func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Name() string               { return filepath.Base(f.name) }
func (f *memoryFile) Size() int64                { return f.size }
func (f *memoryFile) Mode() fs.FileMode          { return 0o444 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }
