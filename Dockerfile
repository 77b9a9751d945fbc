# One image for all roles (gateway, node, both) and for the commands of operators.
#
#   docker build --tag folio:local .
#   docker build --tag folio-llm-sim:local --target llm-sim .

FROM node:22-bookworm AS page
WORKDIR /src
COPY proto proto
COPY clients/typescript clients/typescript
COPY web web
# The installation of the client generates its messages and compiles it. The page contains the client.
RUN --mount=type=cache,target=/root/.npm \
    npm --prefix clients/typescript ci --no-fund --no-audit \
    && npm --prefix web ci --no-fund --no-audit \
    && npm --prefix web run build

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The build of the gateway embeds the page.
COPY --from=page /src/web/dist web/dist
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package folio --package llm-sim \
    && mkdir /out && cp target/dist/folio target/dist/llm-sim /out/

FROM debian:bookworm-slim AS base
# Programs for OCR and PDF pages; certificate authorities for model endpoints and stores.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates poppler-utils tesseract-ocr tini \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 folio \
    && useradd --uid 10001 --gid folio --home-dir /var/lib/folio --shell /usr/sbin/nologin folio \
    && install --directory --owner folio --group folio --mode 0700 /var/lib/folio
# The allocator requests no huge pages: the kernel would grow the memory of idle processes in the background.
ENV MIMALLOC_ALLOW_THP=0
USER 10001:10001
WORKDIR /var/lib/folio

FROM base AS llm-sim
COPY --from=build /out/llm-sim /usr/local/bin/llm-sim
EXPOSE 8089
ENTRYPOINT ["tini", "--", "llm-sim"]

# The default target is the last stage.
FROM base AS folio
COPY --from=build /out/folio /usr/local/bin/folio
VOLUME /var/lib/folio
# Ports: the public API; health and metrics; RPCs between gateways and nodes.
EXPOSE 8080 8081 7400
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "folio"]
CMD ["serve", "--data", "/var/lib/folio", "--listen", "0.0.0.0:8080", "--insecure"]
