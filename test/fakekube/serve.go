package fakekube

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Serve publishes a configuration of this package over HTTPS on loopback until the test
// ends, for programs that read a kubeconfig file. The returned configuration has a bearer
// token; other tokens are rejected. Not for synctest bubbles.
func Serve(t testing.TB, config *rest.Config) *rest.Config {
	t.Helper()
	const token = "known"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			failed := apierrors.NewUnauthorized("Unauthorized").ErrStatus
			w.Header().Set("Content-Type", typeJSON)
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(failed)
			return
		}
		response, err := config.Transport.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler) // closes the connection
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(flushing{w, http.NewResponseController(w)}, response.Body)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return &rest.Config{
		Host: server.URL, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
}

// flushing sends written data at once, as watches require.
type flushing struct {
	io.Writer
	controller *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.controller.Flush()
	}
	return n, err
}
