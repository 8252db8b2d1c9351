//go:build tools

// Package tools pins Helm 4, with which the tests install the chart. It is no part of the product.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
