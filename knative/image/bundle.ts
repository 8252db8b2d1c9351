/**
 * `npm run build`: the server as files that need Node and nothing else, in `dist`, or in whatever folder is given.
 *
 * `server/start.cjs` starts `server/FUNCTION/main.cjs`, where there is one folder for each function and `all`. `server/later`
 * has what is loaded when it is needed, such as the SDK for traces. `server/kubectl-sluice` is the kubectl plugin, for users
 * without Node. `compile.cjs` then writes the compiled code beside them. `agent/main.mjs` is the agent of a node, and
 * `process-manager/main.mjs` the server of the process manager.
 * The same sources give the same bytes.
 */
import { readFile, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { script } from "../../triggers/status/script.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions, table } from "../../triggers/table.ts";
import { bundlePlugin } from "./bundle-plugin.ts";
import { Later, quickToStart, root, smaller } from "./bundling.ts";

const lists = { groupFunctions, admissionFunctions, cronFunctions, statusFunctions };

const shared = {
  absWorkingDir: root,
  platform: "node",
  // V8 gives compiled code with the functions that have run only for a script, and not for a module.
  format: "cjs",
  target: "node24",
  supported: { "dynamic-import": false },
  define: { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" },
  mainFields: smaller.mainFields,
  outExtension: { ".js": ".cjs" },
  logLevel: "warning",
} as const satisfies BuildOptions;

/** The content of `table.ts` with this function alone, so that no other one comes into its bundle. */
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
  const guards = statusFunctions.some((one) => one === definition) ? guardsOfAll() : guardsOf(["definition"]);
  return [from, ...rows, settings, "export const table = [definition];", ...guards].join("\n");
}

/** The status explains what each function waits for. Their guards alone come with it. */
function guardsOfAll(): readonly string[] {
  const imports = table.map(({ name }, index) => {
    const path = JSON.stringify(`../functions/${name}/guards.ts`);
    return `import { guards as guards${index} } from ${path};`;
  });
  const definitions = table.map(({ name }, index) => `{ name: ${JSON.stringify(name)}, guards: guards${index} }`);
  return [...imports, ...guardsOf(definitions)];
}

const guardsOf = (definitions: readonly string[]): readonly string[] => [
  'import { byName } from "../functions/shared/base/guards.ts";',
  `export const guardsByFunction = byName([${definitions.join(", ")}]);`,
];

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

/** The page's script is read from files that the image does not have. */
const withScript: Plugin = {
  name: "with-script",
  setup(bundle) {
    bundle.onLoad({ filter: /\/triggers\/status\/script\.ts$/ }, () => ({
      contents: `export const script = ${JSON.stringify(script)};`,
    }));
  },
};

/** No user must need to know the contents of our development dependencies, or be attacked by them. */
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
    ...smaller,
    define: { ...shared.define, ...smaller.define },
    legalComments: "linked",
    metafile: true,
  });
  await refuseDevelopmentDependencies(metafile);
}

/** A process that lives long. It awaits at its top level, which needs a module. */
async function buildProcess(entryPoint: string, outdir: string): Promise<void> {
  await rm(outdir, { recursive: true, force: true });
  const entryPoints = [entryPoint];
  const asModule = { format: "esm", outExtension: { ".js": ".mjs" } } as const;
  await buildBundle({ entryPoints, outdir, plugins: [...quickToStart], ...asModule });
}

async function main(outdir: string): Promise<void> {
  const server = join(outdir, "server");
  // Files of an earlier build would be shipped as well.
  await rm(server, { recursive: true, force: true });
  const later = new Later();
  const plugins = [later.plugin, withScript, ...quickToStart];
  for (const name of ["all", ...table.map((one) => one.name)]) {
    const alone = name === "all" ? [] : [withOneFunction(name)];
    const outdir = join(server, name);
    await buildBundle({ entryPoints: ["triggers/main.ts"], outdir, plugins: [...alone, ...plugins] });
  }
  // Some of these only appear while others are built.
  for (const [name, file] of later.files)
    await buildBundle({ entryPoints: { [name]: file }, outdir: join(server, "later"), plugins });
  await build({ ...shared, bundle: true, entryPoints: ["knative/image/start.ts"], outdir: server });
  await refuseDevelopmentDependencies(await bundlePlugin(join(server, "kubectl-sluice")));
  await build({ ...shared, bundle: true, entryPoints: ["knative/image/compile.ts"], outdir });
  await buildProcess("functions/fence-node/agent/main.ts", join(outdir, "agent"));
  const processManager = "functions/advance-process-restart/process-manager/main.ts";
  await buildProcess(processManager, join(outdir, "process-manager"));
  console.log(relative(process.cwd(), server));
}

await main(process.argv[2] ?? join(root, "dist"));
