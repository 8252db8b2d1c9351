# One image for every function: FUNCTION names the one to serve; without it, all of them are. `--target agent` builds the image of
# the agents of fencing, which has nothing else, and `--target process-manager` that of the server beside a database process.
# test/image runs these very steps in empty folders, where there is no container engine.

# Tags may be moved: give digests, by --build-arg, and what is built is what was looked at. README.md says how.
ARG BUILD_IMAGE=node:24-slim
ARG RUN_IMAGE=gcr.io/distroless/nodejs24-debian13:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# No package runs anything of its own here: the Node of this image and a bundler's binary are all that is needed.
RUN npm ci --no-audit --no-fund --ignore-scripts
COPY functions functions
COPY triggers triggers
COPY knative/image knative/image
RUN npm run build

# Compiled code is of use to the very Node and flags alone that wrote it: so it is written by those of the image below.
# This flag saves memory. With others that npm start has, such as --heap-growing-percent, Node takes no code of its own that was
# compiled when it was built, and a start takes half as long again.
FROM ${RUN_IMAGE} AS compiled
COPY --from=build --chown=65532:65532 /build/dist /sluice
USER 65532:65532
RUN ["/nodejs/bin/node", "--max-semi-space-size=4", "/sluice/compile.cjs", "/sluice/server"]

# It runs as root in a privileged container: Kubernetes lets no other one open a watchdog. The manifest says so, and why.
FROM ${RUN_IMAGE} AS agent
COPY --from=build --chown=0:0 /build/dist/agent /sluice
USER 0:0
# As below.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
ENTRYPOINT ["/nodejs/bin/node", "--max-semi-space-size=4", "/sluice/main.mjs"]

# It runs in the pods of databases, so that their security context may name another user.
FROM ${RUN_IMAGE} AS process-manager
COPY --from=build --chown=0:0 /build/dist/process-manager /sluice
USER 65532:65532
# As below.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
ENTRYPOINT ["/nodejs/bin/node", "--max-semi-space-size=4", "/sluice/main.mjs"]

# The last stage is built where no target is named. The bundles hold what they need of the production dependencies: no other package
# is in the image.
FROM ${RUN_IMAGE}
COPY --from=compiled --chown=0:0 /sluice/server /sluice
USER 65532:65532
# What lists and answers took goes back to the system: glibc keeps an arena for each thread otherwise, and what was large in it.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
EXPOSE 8080
ENTRYPOINT ["/nodejs/bin/node", "--max-semi-space-size=4", "/sluice/start.cjs"]
