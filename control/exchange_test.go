package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// says is a far end that answers each request with bytes, the first to /versions.
func says(t *testing.T, answers ...string) *pipes {
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 8<<10)
				for _, a := range answers {
					if _, err := c.Read(b); err != nil {
						return
					}
					if _, err := io.WriteString(c, a); err != nil {
						return
					}
				}
				_, _ = io.Copy(io.Discard, c) // until the caller goes
			}()
		}
	}()
	return l
}

func response(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func TestFarEndsOfAllKindsGetAClearVerdict(t *testing.T) {
	t.Parallel()
	ok, versions := response(200, "{}"), response(200, `{"versions":[1]}`)
	for name, c := range map[string]struct {
		answers []string
		says    string // empty = accepted
	}{
		"accepts":                      {[]string{versions, ok}, ""},
		"speaks a later version too":   {[]string{response(200, `{"versions":[1,2],"later":{}}`), ok}, ""},
		"speaks only a later version":  {[]string{response(200, `{"versions":[2]}`)}, "speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway"},
		"speaks no version":            {[]string{response(200, `{"versions":[]}`)}, "lists 0 versions"},
		"versions are no numbers":      {[]string{response(200, `{"versions":["1"]}`)}, "the far end's response to /versions is not the expected JSON"},
		"knows no versions":            {[]string{response(404, "{}")}, "unexpected status 404 for /versions"},
		"redirects":                    {[]string{"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}, "unexpected status 302 for /versions"},
		"refuses":                      {[]string{versions, response(409, `{"refused":"10.0.0.0/16 was not granted"}`)}, "refused the announcement: 10.0.0.0/16 was not granted"},
		"refuses without a reason":     {[]string{versions, response(409, `{}`)}, "refused the announcement: no reason given"},
		"refuses in control codes":     {[]string{versions, response(409, `{"refused":"\u001b[2J\nready"}`)}, "refused the announcement: \ufffd[2J ready"},
		"refuses at length":            {[]string{versions, response(409, `{"refused":"`+strings.Repeat("x", 9999)+`"}`)}, "refused the announcement: " + strings.Repeat("x", maxReason)},
		"finds it malformed":           {[]string{versions, response(400, `{"error":"cluster: missing"}`)}, "rejected the announcement as malformed: cluster: missing"},
		"fails":                        {[]string{versions, response(500, "")}, "unexpected status 500 for /v1/announcement"},
		"is no HTTP server":            {[]string{"SSH-2.0-OpenSSH_9.9\r\n\r\n"}, "malformed HTTP"},
		"answers too much":             {[]string{response(200, strings.Repeat(" ", maxBody+1))}, "is longer than 65536 bytes"},
		"answers without end":          {[]string{"HTTP/1.1 200 X\r\n\r\n" + strings.Repeat(" ", 2*maxBody)}, "is longer than 65536 bytes"},
		"has too long a header":        {[]string{"HTTP/1.1 200 X\r\nA: " + strings.Repeat("x", 100<<10)}, "header"},
		"answers nothing and goes":     {[]string{"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, "the far end's response to /versions is not the expected JSON"},
		"promises more than it sends":  {[]string{"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n{}"}, "deadline"},
		"never answers the first time": {nil, "deadline"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, err := announce(t.Context(), says(t, c.answers...).dial, []byte("{}"))
			if (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got  %v\nwant %s", name, err, c.says)
			}
			if strings.HasPrefix(c.says, "refuses") {
				if refused, _, other := reason(err); other != nil || len(refused) > 2*maxReason || refused == "" {
					t.Errorf("%s: refused %q, other %v", name, refused, other)
				}
			}
			want := time.Duration(0)
			if c.says == "deadline" {
				want = patience
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%s: the exchange took %v, want %v", name, took, want)
			}
		})
	}
}

func TestAFarEndThatClosesIsAnErrorNotAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		if _, err := announce(t.Context(), l.dial, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A proxy of the environment is for the internet, not for the tunnel.
func TestNoProxyIsAsked(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		hosts := make(chan string, 2)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hosts <- r.RequestURI
			answer(w, http.StatusOK, versionsBody{spoken})
		})}
		go s.Serve(l)
		defer s.Close()
		if _, err := announce(t.Context(), l.dial, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if got := <-hosts + " " + <-hosts; got != "/versions /v1/announcement" {
			t.Errorf("asked for %s", got)
		}
	})
}

func TestAnIncompatibleVersionIsReportedApartFromAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		far := says(t, response(200, `{"versions":[7]}`))
		_, err := announce(t.Context(), far.dial, []byte("{}"))
		var skew *Skew
		if !errors.As(err, &skew) || !slices.Equal(skew.Theirs, []int{7}) || !skew.Behind() {
			t.Errorf("says %v", err)
		}
	})
}
