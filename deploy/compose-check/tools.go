//go:build tools

// Package composecheck pins the Docker Compose that validates docker-compose.yml where no Docker engine runs.
package composecheck

import _ "github.com/docker/compose/v2/cmd"
