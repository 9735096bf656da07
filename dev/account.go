package dev

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user whom Postgres runs as: this process's own, or, because Postgres
// refuses to run as root, another one when this process is root.
type account struct {
	name     string
	uid, gid int
	switched bool // it is not this process's own
}

// accountNames are tried in order when this process is root.
var accountNames = []string{"postgres", "nobody"}

func postgresAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range accountNames {
		if a, err := lookupAccount(name); err == nil {
			return a, nil
		}
	}
	return account{}, fmt.Errorf("postgres refuses to run as root and this machine has none of the accounts %v: create one, run as another user, or set DATABASE_URL", accountNames)
}

func lookupAccount(name string) (account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return account{}, fmt.Errorf("user id of %s: %w", name, err)
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return account{}, fmt.Errorf("group id of %s: %w", name, err)
	}
	return account{name: name, uid: uid, gid: gid, switched: true}, nil
}

// credential is what a process of the account is started with; nil: this process's own.
func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// makeFolder makes a folder that only the account can enter.
func (a account) makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if !a.switched {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// canReach tells whether the account may pass through path and every folder above it.
// Folders that do not exist yet count as passable: they will be made so.
func (a account) canReach(path string) bool {
	if !a.switched {
		return true
	}
	for path = realPath(path); ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err == nil && !a.mayEnter(info) {
			return false
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}

// mayEnter reads the execute bit that applies to the account.
func (a account) mayEnter(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	bit := os.FileMode(0o001)
	switch {
	case int(owner.Uid) == a.uid:
		bit = 0o100
	case int(owner.Gid) == a.gid:
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0
}

// realPath resolves the links of the part of path which exists.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(realPath(parent), filepath.Base(path))
}
