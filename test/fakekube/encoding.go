package fakekube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var (
	codecs          = serializer.NewCodecFactory(scheme)
	protobufEncoder = protobuf.NewSerializer(scheme, scheme)
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

func decodeJSON(text []byte) (map[string]any, error) {
	var fields map[string]any
	if err := utiljson.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		fields = make(map[string]any)
	}
	return fields, nil
}

// decode returns the object in a request.
func decode(r *resource, q Request) (*object, error) {
	var content map[string]any
	var err error
	if bytes.HasPrefix(q.body, []byte("k8s\x00")) {
		var typed runtime.Object
		if typed, err = runtime.Decode(codecs.UniversalDeserializer(), q.body); err == nil {
			content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		}
	} else {
		content, err = decodeJSON(q.body)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o := &object{Object: content}
	if o.GetKind() == "" {
		o.SetGroupVersionKind(r.gvk())
	}
	if _, is := content["metadata"].(map[string]any); !is {
		content["metadata"] = make(map[string]any)
	}
	if o.GetNamespace() == "" && r.namespaced {
		o.SetNamespace(q.Namespace)
	}
	return o, nil
}

func decodeDeleteOptions(body []byte) (options metav1.DeleteOptions, err error) {
	if len(body) == 0 {
		return options, nil
	}
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(body[4:]); err != nil {
			return options, err
		}
		return options, options.Unmarshal(unknown.Raw)
	}
	return options, json.Unmarshal(body, &options)
}

// encode returns an object in an encoding that the client accepts, and its content type.
func encode(accept string, kind schema.GroupVersionKind, content map[string]any) (contentType string, text []byte, err error) {
	if isProtobuf(accept) && scheme.Recognizes(kind) {
		typed, err := scheme.New(kind)
		if err != nil {
			return "", nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
			return "", nil, err
		}
		if _, is := typed.(interface{ Marshal() ([]byte, error) }); is {
			typed.GetObjectKind().SetGroupVersionKind(kind)
			text, err := runtime.Encode(protobufEncoder, typed)
			return typeProtobuf, text, err
		}
	}
	text, err = json.Marshal(content)
	return typeJSON, text, err
}

// onlyMetadata reports whether a client requests only metadata.
func onlyMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func metadataOf(o *object, kind string) map[string]any {
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": o.Object["metadata"]}
}

func respondObject(r *http.Request, status int, kind *resource, o *object) (*http.Response, error) {
	content, gvk := o.Object, kind.gvk()
	if onlyMetadata(r) {
		content, gvk = metadataOf(o, "PartialObjectMetadata"), schema.GroupVersionKind{}
	}
	contentType, text, err := encode(r.Header.Get("Accept"), gvk, content)
	return respond(r, status, contentType, text), err
}

func respondList(r *http.Request, kind *resource, p page) (*http.Response, error) {
	gvk := kind.gvk()
	gvk.Kind += "List"
	metadata := map[string]any{"resourceVersion": strconv.FormatUint(p.version, 10)}
	if p.next != "" {
		metadata["continue"], metadata["remainingItemCount"] = p.next, int64(p.remaining)
	}
	items := make([]any, len(p.objects))
	for i, o := range p.objects {
		if items[i] = o.Object; onlyMetadata(r) {
			items[i] = metadataOf(o, "PartialObjectMetadata")
		}
	}
	if onlyMetadata(r) {
		gvk = schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadataList"}
	}
	content := map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": metadata, "items": items}
	contentType, text, err := encode(r.Header.Get("Accept"), gvk, content)
	return respond(r, http.StatusOK, contentType, text), err
}

func respondSuccess(r *http.Request) *http.Response {
	return respondStatus(r, metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK})
}

// failure is the response to a failed request.
func failure(r *http.Request, err apierrors.APIStatus) *http.Response {
	return respondStatus(r, err.Status())
}

// notFound is the response to a request for an unknown path.
func notFound(r *http.Request) *http.Response {
	return respond(r, http.StatusNotFound, "text/plain", []byte("404 page not found\n"))
}

func respondStatus(r *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	text, err := json.Marshal(status)
	must(err)
	code := int(status.Code)
	if code == 0 {
		code = http.StatusInternalServerError
	}
	response := respond(r, code, typeJSON, text)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response
}

func respond(r *http.Request, status int, contentType string, text []byte) *http.Response {
	return stream(r, status, contentType, io.NopCloser(bytes.NewReader(text)))
}

func stream(r *http.Request, status int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, Request: r,
	}
}

// reviewSelf returns the identity of the client.
func (s *Server) reviewSelf(r *http.Request, q Request) (*http.Response, error) {
	review := authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: q.user}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&review)
	if err != nil {
		return nil, err
	}
	kind := authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview")
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	contentType, text, err := encode(r.Header.Get("Accept"), kind, content)
	return respond(r, http.StatusCreated, contentType, text), err
}
