package dev

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// repository serves one archive as every build of Postgres, and counts its downloads.
func repository(t *testing.T, archive []byte) (url string, downloads *atomic.Int32) {
	t.Helper()
	downloads = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r) // no checksum
			return
		}
		downloads.Add(1)
		_, _ = w.Write(archive)
	}))
	t.Cleanup(server.Close)
	return server.URL, downloads
}

// wrappedPostgres is an archive as the repository has them, whose programs call those of
// an installed Postgres.
func wrappedPostgres(t *testing.T, bin string) []byte {
	t.Helper()
	var files bytes.Buffer
	out := tar.NewWriter(&files)
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", filepath.Join(bin, name))
		header := &tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(script))}
		if err := out.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, script); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return jar(t, storedXZ(files.Bytes()))
}

func jar(t *testing.T, content []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	out := zip.NewWriter(&archive)
	file, err := out.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// storedXZ writes the xz format (tukaani.org/xz/xz-file-format.txt) without compression:
// one block of one LZMA2 chunk, so of at most 64 KiB, without a check.
func storedXZ(content []byte) []byte {
	flags := []byte{0, 0} // no check
	file := append([]byte("\xfd7zXZ\x00"), withCRC(flags, flags)...)

	// Header: size 12, one filter, LZMA2, one property (dictionary), padding.
	header := []byte{2, 0, 0x21, 1, 0, 0, 0, 0}
	block := withCRC(header, header)
	block = append(block, 1) // a stored chunk that resets the dictionary
	block = binary.BigEndian.AppendUint16(block, uint16(len(content)-1))
	block = append(append(block, content...), 0) // the end of chunks
	unpadded := len(block)
	file = append(file, padded(block)...)

	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = padded(binary.AppendUvarint(index, uint64(len(content))))
	index = withCRC(index, index)
	file = append(file, index...)

	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))
	footer = append(footer, flags...)
	file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(footer))
	return append(append(file, footer...), "YZ"...)
}

func withCRC(text, summed []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(text), crc32.ChecksumIEEE(summed))
}

func padded(text []byte) []byte {
	return append(text, make([]byte, (4-len(text)%4)%4)...)
}

func TestPostgresIsDownloadedOnceForAllAndRuns(t *testing.T) {
	t.Parallel()
	installed := startPostgres(t, PostgresOptions{Throwaway: true})
	url, downloads := repository(t, wrappedPostgres(t, installed.cluster.bin))
	build := download{version: downloadableVersions[newestDownload], cache: dataFolder(t), repository: url}
	var starts sync.WaitGroup
	for range 3 {
		starts.Go(func() {
			if _, err := build.binaries(t.Context(), newProgress(io.Discard)); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	if got := downloads.Load(); got != 1 {
		t.Errorf("%d downloads", got)
	}
	startFrom(t, filepath.Join(build.folder(), "bin"))
}

// startFrom starts a server with the binaries in the folder.
func startFrom(t *testing.T, bin string) {
	t.Helper()
	account, err := postgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{account: account, throwaway: true, temporary: true, bin: bin}
	if err := c.takeFolder(""); err != nil {
		t.Fatal(err)
	}
	if err := c.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	pg := &Postgres{cluster: c}
	if err := pg.startOnFreePort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, pg, "select 1"); got != 1 {
		t.Errorf("select 1 = %d", got)
	}
	stopPostgres(t, pg)
}

func TestFailedDownloadNamesTheRemediesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	whole := wrappedPostgres(t, "/nowhere")
	for name, archive := range map[string][]byte{"not an archive": []byte("hello"), "not xz": jar(t, []byte("hello"))} {
		url, _ := repository(t, archive)
		build := download{version: "18.0.0", cache: t.TempDir(), repository: url}
		_, err := build.binaries(t.Context(), newProgress(io.Discard))
		if err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%s: %v, want the remedies", name, err)
		}
		build.repository, _ = repository(t, whole)
		if _, err := build.binaries(context.Background(), newProgress(io.Discard)); err != nil {
			t.Errorf("after %s, a whole archive: %v", name, err)
		}
	}
}
