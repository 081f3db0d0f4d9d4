# A static binary in an empty image, run by a user that owns nothing but /data.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /out/countersign ./cmd/countersign \
 && mkdir -p /out/data /out/tmp && chmod 1777 /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/countersign /countersign
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/tmp /tmp
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8787
# It asks http://127.0.0.1:8787, unless COUNTERSIGN_SERVER says where the gate listens.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/countersign", "health"]
ENTRYPOINT ["/countersign"]
CMD ["serve", "--config", "/data/countersign.yaml"]
