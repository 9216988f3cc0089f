# A static binary on nothing. Build for other platforms with: docker buildx build --platform linux/amd64,linux/arm64 .
ARG BUILDER=golang:1.26
FROM --platform=$BUILDPLATFORM ${BUILDER} AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /out/tidemark ./cmd/tidemark \
 && mkdir -p /out/state

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="tidemark" \
      org.opencontainers.image.description="Envoy ext_proc filter that shrinks LLM agent transcripts and keeps the prompt cache warm" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /out/tidemark /tidemark
COPY --from=build --chown=65532:65532 /out/state /var/lib/tidemark
USER 65532:65532
ENV TIDEMARK_STATE=/var/lib/tidemark
VOLUME /var/lib/tidemark
EXPOSE 9002
HEALTHCHECK --interval=10s --timeout=2s --start-period=5s CMD ["/tidemark", "health"]
ENTRYPOINT ["/tidemark"]
CMD ["serve"]
