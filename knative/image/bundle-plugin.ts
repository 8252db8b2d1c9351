/** The kubectl plugin as one file of JavaScript: for the image, and for users who have Node. */
import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { build, type Metafile, type Plugin } from "esbuild";
import { quickToStart, root, smaller } from "./bundling.ts";

/** What a user with an older Node can do. It is in a string of the script, so it has no quotes. */
const withoutNode =
  "npm run build:plugin -- --executable makes one file that needs no Node, and a pod of Sluice also runs it: " +
  "kubectl exec deploy/sluice -- /nodejs/bin/node /sluice/kubectl-sluice why GROUP";

/** The version that undici, through which every request goes, requires: `>=22.19.0`. */
async function readLeastVersion(): Promise<string> {
  const manifest = JSON.parse(await readFile(join(root, "node_modules/undici/package.json"), "utf8"));
  const version = /^>=(\d+\.\d+)\.\d+$/.exec(manifest.engines.node)?.[1];
  if (version === undefined)
    throw new Error(`undici asks for Node ${manifest.engines.node}, which is not understood here`);
  return version;
}

/**
 * What stands before everything else, in words that every Node of the last ten years understands.
 *
 * A file without an extension is an ES module or a CommonJS one as the next package.json above it has it. This one has to
 * run as either, wherever it is put: so it has a scope of its own and a `require` for Node's own modules.
 */
function prelude(least: string): string {
  return `#!/usr/bin/env node
(function () {
var leastVersion = ${JSON.stringify(least)}.split("."), nodeVersion = process.versions.node.split(".");
if (+nodeVersion[0] < +leastVersion[0] || (+nodeVersion[0] === +leastVersion[0] && +nodeVersion[1] < +leastVersion[1]) || nodeVersion[0] === "23") {
  console.error("kubectl-sluice: it needs Node ${least} or newer (not 23), and " + process.execPath + " is " + process.versions.node + ": ${withoutNode}");
  return process.exit(2);
}
function require(name) {
  var found = process.getBuiltinModule(name);
  if (!found) throw new Error("there is no module " + name);
  return found;
}
`;
}

/** The plugin needs only the version of package.json, which it sends to the API server. */
function withVersion(version: string): Plugin {
  return {
    name: "with-version",
    setup(bundle) {
      bundle.onLoad({ filter: /package\.json$/ }, ({ path }) =>
        path === join(root, "package.json") ? { contents: JSON.stringify({ version }), loader: "json" } : undefined,
      );
    },
  };
}

/** Writes the plugin, and resolves to its inputs. * @param version absent: the one of package.json */
export async function bundlePlugin(outfile: string, version?: string): Promise<Metafile> {
  const least = await readLeastVersion();
  const manifest: { readonly version: string } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["triggers/plugin/cli.ts"],
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    // Older versions must get as far as this message.
    target: "node16",
    ...smaller,
    plugins: [withVersion(version ?? manifest.version), ...quickToStart],
    banner: { js: prelude(least) },
    footer: { js: "})();" },
    legalComments: "inline",
    logLevel: "warning",
    metafile: true,
  });
  await chmod(outfile, 0o755);
  return metafile;
}
