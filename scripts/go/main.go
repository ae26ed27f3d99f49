package main

import "github.com/coreos/go-oidc/v3/oidc"

// Builds what the snippet for Go needs, so that its test needs not wait for that.
func main() { _ = oidc.NewVerifier }
