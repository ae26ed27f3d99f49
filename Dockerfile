# The gateway alone: what `npm pack` takes, and the production dependencies of the lock file.
#
#   docker build --tag sallyport --build-arg REVISION="$(git rev-parse HEAD)" \
#     --build-arg SOURCE_DATE_EPOCH="$(git log -1 --pretty=%ct)" .

# A line with long-term support, by the digest of its index for all platforms: a tag may be led elsewhere. Raise both together
# (`docker buildx imagetools inspect node:24.22.3-trixie-slim` tells it), or give a mirror's of your own.
ARG NODE_IMAGE=docker.io/library/node:24.22.3-trixie-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
# By itself, so that a change of the sources alone installs nothing anew. No package's scripts run.
COPY package.json package-lock.json ./
COPY scripts/install.js scripts/
RUN node scripts/install.js
COPY scripts/build.js scripts/compile-schemas.js scripts/shrinkwrap.js scripts/
COPY tsconfig.json README.md LICENSE ./
COPY gateway gateway/
COPY console console/
COPY demo demo/
COPY config config/
COPY policies policies/
ARG REVISION=unknown
RUN npm pack

# The image's files, as they will stand in it.
WORKDIR /image/app
# The package's own lock knows no development package, and `npm ci` would miss those that package.json names.
RUN tar --extract --file /build/sallyport-*.tgz --strip-components 1 && rm npm-shrinkwrap.json && cp /build/package-lock.json .
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# Commands find their configuration here without being told. Policies must be mounted: without a policy nothing starts.
WORKDIR /image/etc/sallyport
RUN mkdir config && cp /image/app/config/gateway.yaml /image/app/config/gateway.schema.json config
WORKDIR /image/usr/local/bin
RUN ln --symbolic /app/dist/gateway/main.js sallyport
# The same sources make the same files, times too.
ARG SOURCE_DATE_EPOCH=0
RUN find /image -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${NODE_IMAGE}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sallyport" \
  org.opencontainers.image.description="Authorization gateway and reverse-proxy sidecar" \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.base.name="docker.io/library/node:24.22.3-trixie-slim"
# A gateway installs nothing, and neither shall an intruder.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
  /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-*
# The files belong to root: the user that runs them cannot change them.
COPY --from=build /image/ /
ENV NODE_ENV=production
# A lookup that is not answered ends after 2 s, not 10.
ENV RES_OPTIONS="timeout:1 attempts:2"
WORKDIR /etc/sallyport
# By number, so that Kubernetes can see that this user is not root. No account has it.
USER 65532:65532
EXPOSE 8080 8081 9090
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --start-interval=2s --retries=3 \
  CMD ["sallyport", "healthcheck"]
STOPSIGNAL SIGTERM
# V8 collects all of its heap only when that has doubled: each collection stops all requests for ten milliseconds or more.
# Its young generation is as large as a gateway needs, whatever memory the container has. One thread helps to collect: four
# would take turns with requests on one processor. Another version of V8 may not know these flags, and then does not start.
ENTRYPOINT ["node", "--no-memory-reducer", "--heap-growing-percent=100", "--max-semi-space-size=8", "--v8-pool-size=1", "--no-allocation-site-pretenuring", "/app/dist/gateway/main.js"]
CMD ["serve"]
