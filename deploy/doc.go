// Package deploy keeps what runs onejob in containers right: docker-compose.yml and
// the Dockerfile at the top of the repository. It exports nothing; its tests read the
// two files as Docker would.
package deploy
