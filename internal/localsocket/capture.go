package localsocket

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
)

// CapturePath is the path on the socket that takes a CaptureRequest as its query, and returns a pcapng file until the body ends.
const CapturePath = "/capture"

// CaptureStages are the names of the stages at which packets can be captured, in the order of a packet's path.
var CaptureStages = []string{"inner", "tunnel", "overlay", "wireguard"}

// CaptureRequest is a request for a capture.
type CaptureRequest struct {
	Stages  []string // of CaptureStages
	Filter  string   // in the syntax of capture.ParseFilter
	Snap    int      // bytes of each packet; 0: all
	Packets int      // maximum number; 0: no limit
}

func (c CaptureRequest) query() string {
	return url.Values{
		"stage": c.Stages, "filter": {c.Filter}, "snap": {strconv.Itoa(c.Snap)}, "packets": {strconv.Itoa(c.Packets)},
	}.Encode()
}

// ReadCapture decodes what query encodes.
func ReadCapture(q url.Values) (c CaptureRequest, err error) {
	c.Stages, c.Filter = q["stage"], q.Get("filter")
	var errs [2]error
	c.Snap, errs[0] = strconv.Atoi(q.Get("snap"))
	c.Packets, errs[1] = strconv.Atoi(q.Get("packets"))
	return c, errors.Join(errs[:]...)
}

// Capture starts a capture in the gateway behind a socket. The result reads as a pcapng file until io.EOF. The capture and the
// file end when until ends, or when the result is closed.
func Capture(ctx context.Context, socket string, c CaptureRequest, until io.Reader) (io.ReadCloser, error) {
	return Call(ctx, socket, CapturePath+"?"+c.query(), until)
}
