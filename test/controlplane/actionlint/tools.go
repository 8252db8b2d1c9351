//go:build tools

// Package tools pins actionlint, which checks the workflow of a release. It is no part of the product.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
