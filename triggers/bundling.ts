/** What every bundle has in common: the kubectl plugin's and those of the server. */
import { join } from "node:path";
import type { Plugin } from "esbuild";

export const root = join(import.meta.dirname, "..");

/** The same as in `kubernetes-configuration.ts`: nothing of client-node's generated API is called, and it is a third of all. */
export const withoutGeneratedApi: Plugin = {
  name: "without-generated-api",
  setup(bundle) {
    bundle.onResolve({ filter: /^\.\/gen\/index\.js$/ }, ({ path }) => ({ path, namespace: "without-generated-api" }));
    bundle.onLoad({ filter: /.*/, namespace: "without-generated-api" }, () => ({
      contents: "export const createConfiguration = undefined, ServerConfiguration = undefined;",
    }));
  },
};
