// Package dev runs real Temporal and real Postgres on one machine, for tests, the demo
// and `onejob dev`, with nothing else installed than Go.
//
// # Where a server comes from
//
//	          first           then                                 else
//	Postgres  DATABASE_URL    installed binaries: PATH,            a build downloaded once,
//	                          pg_config, the folders of Debian,    see postgres_download.go
//	                          Red Hat and Homebrew
//	Temporal  TEMPORAL_       the CLI that ONEJOB_TEMPORAL_CLI     the CLI built once from the
//	          ADDRESS         or PATH names                        module tools, in minutes
//
// What the first column names is external: it is used as it is, and never stopped,
// killed or restarted ([ErrExternal]). Builds and downloads are kept in the folder onejob
// of the user's cache.
//
// # What it promises
//
//   - A server that was started is ready: it answers queries, or describes its
//     namespaces, and it is the one that we started, not another one on its port.
//   - It listens on 127.0.0.1 only, on ports of its own choice, with no password. Two
//     runs at once do not collide; a data folder has one owner at a time ([ErrInUse]).
//   - Stop ends it and waits for that. On Linux it also dies with the process which
//     started it, even by SIGKILL; elsewhere only Stop ends it.
//   - An interrupt typed at the terminal does not reach it: its owner stops it in order.
//   - A failed start leaves no process and tells the last lines of the server's log.
//   - Without a data folder, nothing is left after Stop; what a killed owner left is
//     removed by a later start.
//
// # Root
//
// Postgres refuses to run as root. It then runs as the account postgres, or nobody,
// which must be able to reach its folders: in place of a data folder that it cannot
// reach, as in root's home, it gets one under /var/lib/onejob, always the same one for
// that folder, and in place of the user's cache /var/cache/onejob. The progress lines
// say where.
//
// It builds on Linux, macOS and other Unix systems, and imports nothing of this module
// but its own internal packages.
package dev
