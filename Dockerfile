# syntax=docker/dockerfile:1

# The compiler runs on the builder's platform and crosses over to the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux TARGETARCH VERSION=dev IMAGE=strait.dev/strait:dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X strait.dev/strait/k8s/install.Image=$IMAGE" -o /strait ./cmd/strait

# One static binary, no shell, and the user 65534. Gateways and the controller need no capability; the chart gives the node
# helper NET_ADMIN.
FROM scratch
COPY --from=build /strait /strait
ARG VERSION=dev SOURCE=https://strait.dev/strait
LABEL org.opencontainers.image.title=strait org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=$SOURCE
USER 65534:65534
ENTRYPOINT ["/strait"]
