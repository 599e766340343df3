# syntax=docker/dockerfile:1

# The compiler runs on the builder's platform and crosses over to the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux TARGETARCH VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /strait ./cmd/strait

# One static binary, no shell, and the user 65534. It needs no capability.
FROM scratch
COPY --from=build /strait /strait
ARG VERSION=dev
LABEL org.opencontainers.image.title=strait org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://strait.dev/strait
USER 65534:65534
ENTRYPOINT ["/strait"]
