package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadableVersions has the builds to download by their major version; newestDownload
// is the one for new data.
var downloadableVersions = map[string]embeddedpostgres.PostgresVersion{
	"16": embeddedpostgres.V16,
	"17": embeddedpostgres.V17,
	"18": embeddedpostgres.V18,
}

const newestDownload = "18"

// download is a build of Postgres that is fetched once and kept in a cache folder.
type download struct {
	version    embeddedpostgres.PostgresVersion
	cache      string // folder for all downloads
	repository string // empty: the library's default
}

// downloadedBinaries is the folder of the binaries of a downloaded build.
func downloadedBinaries(ctx context.Context, a account, version string, progress *progress) (string, error) {
	if version == "" {
		version = newestDownload
	}
	build, ok := downloadableVersions[version]
	if !ok {
		return "", fmt.Errorf("the data was made by postgres %s: install it", version)
	}
	cache, err := cacheFolder(a)
	if err != nil {
		return "", err
	}
	return download{version: build, cache: cache}.binaries(ctx, progress)
}

// binaries downloads the build unless that was done before.
func (d download) binaries(ctx context.Context, progress *progress) (string, error) {
	bin := filepath.Join(d.folder(), "bin")
	if isExecutable(filepath.Join(bin, "postgres")) {
		return bin, nil
	}
	lock, err := awaitLock(ctx, d.folder()+".lock", func() {
		progress.printf("another process downloads postgres: waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer lock.release()
	if isExecutable(filepath.Join(bin, "postgres")) {
		return bin, nil
	}
	progress.printf("no installed postgres found: downloading %s to %s (once only)", d.version, d.folder())
	if err := d.fetch(); err != nil {
		return "", fmt.Errorf("download postgres %s (or install it, or set DATABASE_URL): %w", d.version, err)
	}
	return bin, nil
}

func (d download) folder() string {
	return filepath.Join(d.cache, "postgres-"+string(d.version))
}

// fetch downloads into a folder beside the final one and renames it when it is whole.
// The library takes no context: an interrupt waits until it has its 30 MB.
func (d download) fetch() error {
	work, err := os.MkdirTemp(d.cache, "download-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := d.unpack(work); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "unpacked"), d.folder())
}

// unpack downloads the build to work/unpacked. The library has no call for that alone:
// its Start does it first, and goes on to create data. We let it fail there, by a
// locale that no system has, because it could not do that as root and we run the
// binaries ourselves. It makes its runtime folder between the two steps, which tells
// whether the first was done.
func (d download) unpack(work string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	runtime := filepath.Join(work, "runtime")
	config := embeddedpostgres.DefaultConfig().Version(d.version).Port(uint32(port)).
		CachePath(filepath.Join(work, "archive")).BinariesPath(filepath.Join(work, "unpacked")).
		RuntimePath(runtime).DataPath(filepath.Join(work, "data")).
		Locale("unpack-only").StartTimeout(time.Second).Logger(io.Discard)
	if d.repository != "" {
		config = config.BinaryRepositoryURL(d.repository)
	}
	server := embeddedpostgres.NewDatabase(config)
	err = server.Start()
	if err == nil {
		return server.Stop()
	}
	if _, missing := os.Stat(runtime); errors.Is(missing, os.ErrNotExist) {
		return err
	}
	return nil
}
