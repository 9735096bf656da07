# The one binary of onejob, static, in an image that holds nothing else but the
# certificates it needs to speak to providers.

FROM --platform=$BUILDPLATFORM golang:1.26.8-alpine AS build
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0 GOCACHE=/cache/build GOMODCACHE=/cache/modules
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache go mod download
COPY . .
RUN --mount=type=cache,target=/cache \
    GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/onejob ./cmd/onejob

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/onejob /onejob
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["/onejob"]
CMD ["worker", "--listen", ":9090"]
