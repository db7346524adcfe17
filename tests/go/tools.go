// SPDX-License-Identifier: Apache-2.0
//go:build tools

// The tools that tests/e2e/test_grpc.py runs; go.mod and go.sum say of which release.
package tools

import (
	_ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
