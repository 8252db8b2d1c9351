# One image for every function: FUNCTION names the one to serve; without it, all of them are.
# test/image runs these very steps in empty folders, where there is no container engine.

FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY functions functions
COPY triggers triggers
RUN npm run build

# Compiled code is of use to the very Node, flags and user alone that wrote it: so it is written by those of the image below.
# There are no flags for V8, such as npm start has to save memory: with any of them it takes no code of Node's own that was
# compiled when Node was built, and a start takes half as long again.
FROM gcr.io/distroless/nodejs24-debian13:nonroot AS compiled
COPY --from=build --chown=65532:65532 /build/dist /sluice
USER 65532:65532
RUN ["/nodejs/bin/node", "/sluice/compile.mjs", "/sluice/server"]

# The bundles hold what they need of the production dependencies: no other package is in the image.
FROM gcr.io/distroless/nodejs24-debian13:nonroot
COPY --from=compiled --chown=0:0 /sluice/server /sluice
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/nodejs/bin/node", "/sluice/start.mjs"]
