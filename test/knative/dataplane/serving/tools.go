//go:build tools

// Package tools pins the programs of knative.dev/serving that tests run. It is no part of the product.
package tools

import (
	_ "knative.dev/serving/cmd/queue"
)
