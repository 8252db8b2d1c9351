/**
 * `npm run build`: the server as files that need Node and nothing else, in `dist`, or in whatever folder is given.
 *
 * `server/start.mjs` starts `server/FUNCTION/main.mjs`, where there is one folder for each function and `all`;
 * `server/tracing-sdk.mjs` is loaded where traces are asked for; `compile.mjs` then writes the compiled code beside them. The
 * same sources give the same bytes.
 */
import { readFile, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { admissionFunctions, cronFunctions, groupFunctions, table } from "../../triggers/table.ts";
import { quickToStart, root } from "./bundling.ts";

const lists = { groupFunctions, admissionFunctions, cronFunctions };

const shared = {
  absWorkingDir: root,
  platform: "node",
  format: "esm",
  target: "node24",
  // The CommonJS of a package that is imported when it is needed would have no names: rotate-certificate could issue nothing.
  mainFields: ["module", "main"],
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
} as const satisfies BuildOptions;

/** What `table.ts` says where there is this function alone, so that no other one comes into its bundle. */
async function tableOf(name: string): Promise<string> {
  const path = `functions/${name}/function.ts`;
  const module: Readonly<Record<string, unknown>> = await import(`../../${path}`);
  const definition = table.find((one) => one.name === name);
  const exported = Object.keys(module).find((one) => module[one] === definition);
  if (exported === undefined) throw new Error(`functions/${name} does not export the definition that the table has`);
  const rows = Object.entries(lists).map(
    ([list, functions]) =>
      `export const ${list} = [${functions.some((one) => one === definition) ? "definition" : ""}];`,
  );
  const from = `import { ${exported} as definition } from ${JSON.stringify(`../${path}`)};`;
  const settings = "export const functionSettings = definition.settings ?? {};";
  return [from, ...rows, settings, "export const table = [definition];"].join("\n");
}

function withOneFunction(name: string): Plugin {
  return {
    name: "with-one-function",
    setup(bundle) {
      bundle.onLoad({ filter: /\/triggers\/table\.ts$/ }, async () => ({
        contents: await tableOf(name),
        loader: "ts",
      }));
    },
  };
}

/** One for all functions, beside them. What is in two bundles of one build would be cut into files that every start reads. */
const tracesApart: Plugin = {
  name: "traces-apart",
  setup(bundle) {
    bundle.onResolve({ filter: /^\.\/tracing-sdk\.ts$/ }, () => ({ path: "../tracing-sdk.mjs", external: true }));
  },
};

/** Nobody may need to know what our development dependencies have in them, or be attacked by it. */
async function refuseDevelopmentDependencies({ inputs }: Metafile): Promise<void> {
  const { packages } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  for (const input of Object.keys(inputs)) {
    const folder = /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(input)?.[0];
    if (folder === undefined) continue;
    const entry = packages[folder];
    if (entry === undefined || entry.dev) throw new Error(`${folder} is no production dependency, and is in a bundle`);
  }
}

async function buildBundle(options: BuildOptions): Promise<void> {
  const { metafile } = await build({
    ...shared,
    ...options,
    bundle: true,
    sourcemap: "linked",
    sourcesContent: false,
    // What is read is less by a third; names stay, so that a stack says something.
    minifyWhitespace: true,
    minifySyntax: true,
    // No door speaks WebSocket: reading the classes of its events would load all of Node's `fetch`.
    define: { "globalThis.CloseEvent": "undefined", "globalThis.ErrorEvent": "undefined" },
    legalComments: "linked",
    metafile: true,
  });
  await refuseDevelopmentDependencies(metafile);
}

async function bundleServer(outdir: string, name: string): Promise<void> {
  const plugins = [tracesApart, ...quickToStart];
  await buildBundle({
    entryPoints: ["triggers/main.ts"],
    outdir: join(outdir, name),
    // What is imported when it is needed is a file of its own, and is not even read before.
    splitting: true,
    chunkNames: "[name]-[hash]",
    plugins: name === "all" ? plugins : [withOneFunction(name), ...plugins],
  });
}

async function main(outdir: string): Promise<void> {
  const server = join(outdir, "server");
  // What an earlier build left would be shipped, too.
  await rm(server, { recursive: true, force: true });
  for (const name of ["all", ...table.map((one) => one.name)]) await bundleServer(server, name);
  await buildBundle({ entryPoints: ["triggers/telemetry/tracing-sdk.ts"], outdir: server, plugins: [...quickToStart] });
  await build({ ...shared, entryPoints: ["triggers/start.ts"], outdir: server });
  await build({ ...shared, entryPoints: ["knative/image/compile.ts"], outdir });
  console.log(relative(process.cwd(), server));
}

await main(process.argv[2] ?? join(root, "dist"));
