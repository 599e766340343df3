package main

// Users of kubeconfig files with an auth-provider (oidc) authenticate as with kubectl. The
// providers that client-go has removed explain what to use instead.
import _ "k8s.io/client-go/plugin/pkg/client/auth"
