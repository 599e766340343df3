package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
)

// Version returns the version of the API server, and its time from the Date header: zero if
// there is none.
func (c *Client) Version(ctx context.Context) (is version.Info, clock time.Time, err error) {
	core := c.groups[corev1.SchemeGroupVersion]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, core.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return is, clock, err
	}
	answer, err := core.Client.Do(request)
	if err != nil {
		return is, clock, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the API server answered %s to /version", answer.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	clock, _ = http.ParseTime(answer.Header.Get("Date")) // zero if there is none
	return is, clock, err
}
