//go:build tools

// Package tools pins the rollout-operator that benchmarks measure Sluice against. It is no part of the product.
package tools

import (
	_ "github.com/grafana/rollout-operator/cmd/rollout-operator"
)
