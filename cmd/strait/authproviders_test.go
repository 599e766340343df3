package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// providerConfig writes a kubeconfig file whose user authenticates with an auth-provider.
func providerConfig(t *testing.T, cluster *clientcmdapi.Cluster, provider string, config map[string]string) (file string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	all.Clusters["prod"] = cluster
	all.AuthInfos["dex"] = &clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: provider, Config: config}}
	all.Contexts["admin"] = &clientcmdapi.Context{Cluster: "prod", AuthInfo: "dex"}
	all.CurrentContext = "admin"
	file = filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// idToken returns a token of a user that expires at a time.
func idToken(t *testing.T, expires time.Time) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"exp": expires.Unix()})
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(claims) + "." + encode([]byte("signature"))
}

// requireToken serves an API server that admits only requests with a token.
func requireToken(t *testing.T, token string) *clientcmdapi.Cluster {
	t.Helper()
	to := objects(t, readyObjects).Config.Handler
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no valid token", http.StatusUnauthorized)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
}

func TestCommandsAuthenticateWithTheAuthProviderOfAKubeconfig(t *testing.T) {
	token := idToken(t, time.Now().Add(time.Hour))
	server := requireToken(t, token)
	file := providerConfig(t, server, "oidc", map[string]string{"client-id": "kubernetes", "idp-issuer-url": "https://dex.example", "id-token": token})
	if stdout, stderr, code := output("", "status", "--kubeconfig", file); code != exitOK || !strings.Contains(stdout, "Peering prod-b with cluster b") {
		t.Errorf("strait status ends with %d\n%s%s", code, stdout, stderr)
	}
}

func TestAnExpiredTokenIsRenewedAndStoredInTheKubeconfig(t *testing.T) {
	renewed := idToken(t, time.Now().Add(time.Hour))
	server := requireToken(t, renewed)
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	defer issuer.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token_endpoint": %q}`, issuer.URL+"/token")
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("refresh_token") != "first" {
			http.Error(w, "unknown refresh token", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "x", "token_type": "bearer", "refresh_token": "second", "id_token": %q}`, renewed)
	})
	file := providerConfig(t, server, "oidc", map[string]string{
		"client-id": "kubernetes", "idp-issuer-url": issuer.URL, "id-token": idToken(t, time.Now().Add(-time.Hour)), "refresh-token": "first"})
	if stdout, stderr, code := output("", "status", "--kubeconfig", file); code != exitOK {
		t.Fatalf("strait status ends with %d\n%s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), renewed) || !strings.Contains(string(text), "second") {
		t.Errorf("the kubeconfig has no renewed tokens:\n%s", text)
	}
}

func TestARemovedAuthProviderNamesItsSuccessor(t *testing.T) {
	for provider, want := range map[string]string{"gcp": "gke-gcloud-auth-plugin", "azure": "kubelogin"} {
		file := providerConfig(t, &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, provider, map[string]string{"a": "b"})
		if _, stderr, code := output("", "status", "--kubeconfig", file); code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stderr %q, want %q in it", provider, code, stderr, want)
		}
	}
}
