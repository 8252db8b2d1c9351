/**
 * What every bundle has in common, the kubectl plugin's and those of the server: what of the packages is left out of them, and
 * what is loaded when it is needed and not before.
 *
 * A function that is scaled to zero starts while an event waits: `npm run bench -- cold-start` measures how long.
 */
import { isBuiltin } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { BuildOptions, OnResolveArgs, Plugin } from "esbuild";

export const root = join(import.meta.dirname, "../..");

/** A module that esbuild gets in place of the requested one. */
interface Replacement {
  readonly asked: RegExp;
  /** The file that asks for it. */
  readonly by: RegExp;
  readonly contents: string;
}

/** The same as in `kubernetes/configuration.ts`: nothing of client-node's generated API is called, and it is a third of all. */
const generatedApi: Replacement = {
  asked: /^\.\/gen\/index\.js$/,
  by: /client-node\/dist\/config\.js$/,
  contents: "export const createConfiguration = undefined, ServerConfiguration = undefined;",
};

const replacements: readonly Replacement[] = [
  generatedApi,
  {
    // Nothing is left to exclude.
    asked: /^node:module$/,
    by: /\/functions\/shared\/kubernetes\/configuration\.ts$/,
    contents: "export const registerHooks = () => ({ deregister() {} });",
  },
  {
    // Its index also has fetch, caches and mocks. Its additions to the dispatchers are repeated here. A WebSocket is opened
    // when a marker
    // is read in a container, and the first one loads its classes.
    asked: /^undici$/,
    by: /./,
    contents: `
      import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
      import api from "undici/lib/api/index.js";
      Object.assign(Dispatcher.prototype, api);
      export { default as buildConnector } from "undici/lib/core/connect.js";
      export { default as errors } from "undici/lib/core/errors.js";
      export { default as Agent } from "undici/lib/dispatcher/agent.js";
      export { default as ProxyAgent } from "undici/lib/dispatcher/proxy-agent.js";
      export function WebSocket(...given) {
        const { WebSocket } = require("undici/lib/web/websocket/websocket.js");
        return new WebSocket(...given);
      }`,
  },
  {
    // Only a proxy may need HTTP/2, and Node's module for it takes long to load.
    asked: /^\.\/client-h2\.js$/,
    by: /undici\/lib\/dispatcher\/client\.js$/,
    contents: 'module.exports = (...given) => require("undici/lib/dispatcher/client-h2.js")(...given);',
  },
  {
    // Its index also has metrics of the process, of clusters of processes, and a gateway.
    asked: /^prom-client$/,
    by: /./,
    contents: ["Counter", "Gauge", "Histogram", "Registry"]
      .map((name) => `export { default as ${name} } from "prom-client/lib/${name.toLowerCase()}.js";`)
      .join("\n"),
  },
  {
    // Log lines go to standard output, without a thread of their own.
    asked: /^\.\/(lib\/)?transport$/,
    by: /\/pino\/(pino|lib\/tools)\.js$/,
    contents: 'module.exports = () => { throw new Error("there are no transports in a bundle"); };',
  },
  {
    // There is one thread, and no other gets work.
    asked: /^(node:)?worker_threads$/,
    by: /\/node_modules\/(undici|pino)\//,
    contents: "module.exports = { isMainThread: true, markAsUncloneable() {} };",
  },
  {
    // It is loaded to report a failed assertion, and not to find it.
    asked: /^(node:)?assert$/,
    by: /./,
    contents: `
      module.exports = (holds, message) => {
        if (!holds) process.getBuiltinModule("node:assert")(holds, message);
      };`,
  },
  {
    // It takes the classes of `fetch` from Node, which loads a whole undici of its own for them: these are the same.
    asked: /^@hono\/node-server$/,
    by: /./,
    contents:
      'import "fetch-classes"; export { getRequestListener } from "./node_modules/@hono/node-server/dist/index.mjs";',
  },
  {
    asked: /^fetch-classes$/,
    by: /./,
    contents: `
      import { Response } from "undici/lib/web/fetch/response.js";
      import { Request } from "undici/lib/web/fetch/request.js";
      import { Headers } from "undici/lib/web/fetch/headers.js";
      Object.assign(globalThis, { Headers, Request, Response });`,
  },
  {
    // It checks of each request whether it is HTTP/2, which no server of ours speaks.
    asked: /^node:http2$/,
    by: /@hono\/node-server\//,
    contents: "export class Http2ServerRequest {}; export const constants = {};",
  },
];

function replacing(list: readonly Replacement[], name: string): Plugin {
  return {
    name,
    setup(bundle) {
      for (const [index, { asked, by }] of list.entries()) {
        const isMeant = ({ importer, namespace }: OnResolveArgs) => namespace !== "file" || by.test(importer);
        const found = { path: String(index), namespace: name };
        bundle.onResolve({ filter: asked }, (given) => (isMeant(given) ? found : undefined));
      }
      bundle.onLoad({ filter: /./, namespace: name }, ({ path }) => ({
        contents: list[Number(path)]?.contents ?? "",
        resolveDir: root,
      }));
    },
  };
}

/**
 * What is needed at times: expressions of partitions, kubeconfigs in YAML, OIDC, proxies, compressed answers. The exports
 * become getters, so that a module is loaded when the first of them is read.
 */
const atTimes = /^(re2js|js-yaml|jsonpath-plus|openid-client|socks|socks-proxy-agent|hpagent|node:zlib)$/;

/** The same for imports at the moment of their use. */
const importedLate = /^(@peculiar\/x509|reflect-metadata|\.\/tracing-sdk\.ts)$/;

/** Code that is loaded when it is needed: each is a file of its own, one for all functions, and is not even read before. */
export class Later {
  /** By name. */
  readonly files = new Map<string, string>();

  readonly plugin: Plugin = {
    name: "later",
    setup: (bundle) => {
      const found = async ({ path, importer, kind, resolveDir }: OnResolveArgs) => {
        const { path: file } = await bundle.resolve(path, { importer, kind, resolveDir, pluginData: "resolving" });
        return file;
      };
      const isOurs = ({ kind, namespace, pluginData }: OnResolveArgs) =>
        namespace === "file" && kind !== "entry-point" && pluginData !== "resolving";
      bundle.onResolve({ filter: /^\.\.\/later\// }, ({ path }) => ({ path, external: true }));
      bundle.onResolve({ filter: importedLate }, async (given) =>
        isOurs(given) ? { path: this.#add(given.path, await found(given)), external: true } : undefined,
      );
      bundle.onResolve({ filter: atTimes }, async (given) => {
        if (!isOurs(given)) return undefined;
        const { path } = given;
        if (isBuiltin(path)) return { path, namespace: "when-needed", pluginData: { file: path, required: path } };
        const file = await found(given);
        return { path, namespace: "when-needed", pluginData: { file, required: this.#add(path, file) } };
      });
      bundle.onLoad({ filter: /./, namespace: "when-needed" }, async ({ pluginData: { file, required } }) => {
        const exported = await import(isBuiltin(file) ? file : pathToFileURL(file).href);
        const names = Object.keys(exported).filter((name) => /^[a-z_$][\w$]*$/i.test(name));
        const getters = names.map((name) => `get ${name}() { return require(${JSON.stringify(required)}).${name}; },`);
        return { contents: `module.exports = {\n${getters.join("\n")}\n};`, resolveDir: root };
      });
    },
  };

  /** The modules that a bundle requires. Two files with one name would be one. */
  #add(asked: string, file: string): string {
    const name = basename(asked, ".ts");
    if ((this.files.get(name) ?? file) !== file)
      throw new Error(`${asked} is two files: ${this.files.get(name)}, ${file}`);
    this.files.set(name, file);
    return `../later/${name}.cjs`;
  }
}

/**
 * Node's own modules, taken as CommonJS modules are. An ES import reads every export once, and some of those are getters that
 * load much more: `node:http` alone then loads all of Node's `fetch`.
 */
const builtinsUnread: Plugin = {
  name: "builtins-unread",
  setup(bundle) {
    bundle.onResolve({ filter: /^[\w:/]+$/ }, ({ path }) =>
      isBuiltin(path) ? { path, namespace: "builtins-unread" } : undefined,
    );
    bundle.onLoad({ filter: /./, namespace: "builtins-unread" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** Of several possible answers the first one counts. */
export const quickToStart: readonly Plugin[] = [replacing(replacements, "replaced"), builtinsUnread];

/** Milo is an experiment of undici's: a second parser, in WebAssembly. By this name Node leaves it out of its own undici. */
const withoutMilo = { esbuildDetection: "true" };

/** Settings that make a bundle smaller, and its start shorter. */
export const smaller = {
  // The CommonJS of a package that is imported when it is needed would have no names, and rotate-certificate could issue
  // nothing.
  mainFields: ["module", "main"],
  // The files are a third smaller; names stay, so that a stack is readable.
  minifyWhitespace: true,
  minifySyntax: true,
  // No server speaks WebSocket, and reading the classes of its events would load all of Node's `fetch`.
  define: { "globalThis.CloseEvent": "undefined", "globalThis.ErrorEvent": "undefined", ...withoutMilo },
} as const satisfies BuildOptions;
