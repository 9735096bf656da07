package dev

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrInUse means that the data folder already belongs to a running server.
var ErrInUse = errors.New("the data folder is in use")

// abandonedAfter is the age from which a temporary folder that nobody holds is known to
// have been left by a killed process, and not to be about to be taken.
const abandonedAfter = time.Minute

// temporaryFolder makes a fresh folder which the account can reach, and removes those
// which killed processes left.
func temporaryFolder(a account, name string) (string, error) {
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if !a.canReach(parent) {
			continue
		}
		parent = realPath(parent)
		sweepAbandoned(parent, name)
		return os.MkdirTemp(parent, name+"-*")
	}
	return "", fmt.Errorf("no temporary folder that the account %s can reach: set TMPDIR to one", a.name)
}

// sweepAbandoned removes what it may and can; the rest does no harm.
func sweepAbandoned(parent, name string) {
	folders, _ := filepath.Glob(filepath.Join(parent, name+"-*"))
	for _, folder := range folders {
		info, err := os.Lstat(filepath.Join(folder, lockName))
		if err != nil || time.Since(info.ModTime()) < abandonedAfter {
			continue
		}
		lock, err := tryLock(filepath.Join(folder, lockName))
		if err != nil {
			continue
		}
		if data := filepath.Join(folder, "data"); !servesData(postmasterOf(data), data) {
			_ = os.RemoveAll(folder)
		}
		lock.release()
	}
}

// persistentFolder is where the account keeps what belongs to dataDir: a folder inside
// it, or, when the account cannot reach that (a data folder in root's home), one under
// /var/lib/onejob which is always the same for this dataDir.
func persistentFolder(a account, dataDir, name string) (string, error) {
	absolute, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	absolute = realPath(absolute)
	folder := filepath.Join(absolute, name)
	if !a.canReach(folder) {
		sum := sha256.Sum256([]byte(absolute))
		folder = filepath.Join("/var/lib/onejob", fmt.Sprintf("%s-%x", name, sum[:6]))
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// cacheFolder is where downloads and builds are kept for the next time: onejob in the
// user's cache folder, or /var/cache/onejob when the account cannot reach that.
func cacheFolder(a account) (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	folder := filepath.Join(user, "onejob")
	if !a.canReach(folder) {
		folder = "/var/cache/onejob"
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// lockPoll is how often a lock that another process holds is tried.
const lockPoll = 200 * time.Millisecond

// lockName is the file in a server's folder which its owner holds locked.
const lockName = "lock"

// folderLock is held until it is released or its process ends.
type folderLock struct{ file *os.File }

// tryLock takes the lock file at path, or fails with [ErrInUse] and the id of the
// process which holds it.
func tryLock(path string) (folderLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return folderLock{}, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return folderLock{file}, signLock(file)
	}
	defer file.Close()
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return folderLock{}, fmt.Errorf("lock %s: %w", path, err)
	}
	holder, _ := os.ReadFile(path)
	return folderLock{}, fmt.Errorf("%w: process %s holds %s", ErrInUse, strings.TrimSpace(string(holder)), path)
}

// signLock leaves this process's id in the file, for the message of those who come later.
func signLock(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(file, os.Getpid())
	return err
}

// awaitLock takes the lock file at path as soon as its holder releases it. It calls
// waits once if that is not at once.
func awaitLock(ctx context.Context, path string, waits func()) (folderLock, error) {
	for first := true; ; first = false {
		lock, err := tryLock(path)
		if !errors.Is(err, ErrInUse) {
			return lock, err
		}
		if first {
			waits()
		}
		if pause(ctx, lockPoll) != nil {
			return folderLock{}, err
		}
	}
}

// release gives the lock up; a second call does nothing.
func (l folderLock) release() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// pause waits for d, or returns the cause that ended ctx before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
