# The image of tombolo: one static program and nothing else, not run as root. `make image` makes the same without a builder, and
# `make image-dockerfile` compares the two. Public certificate authorities are in the program itself.
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse HEAD) \
#     --build-arg DATE=$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .
ARG GO=docker.io/library/golang:1.26
FROM --platform=$BUILDPLATFORM ${GO} AS build
ARG TARGETOS TARGETARCH VERSION=v0.0.0 COMMIT DATE
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" -o /out/tombolo ./cmd/tombolo

FROM scratch
ARG VERSION=v0.0.0
LABEL org.opencontainers.image.title="tombolo" \
      org.opencontainers.image.description="Ties a machine that runs nothing but containerd to a Kubernetes cluster" \
      org.opencontainers.image.source="https://github.com/tombolo-dev/tombolo" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /out/tombolo /usr/local/bin/tombolo
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tombolo"]
