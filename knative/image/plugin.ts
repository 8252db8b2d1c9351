/**
 * `npm run build:plugin`: the kubectl plugin as one executable file, `dist/kubectl-sluice`, or whatever path is given. Beside it
 * is what kubectl asks for completions, `kubectl_complete-sluice`.
 *
 * kubectl finds it anywhere on PATH by its name. It needs Node and no other file.
 */
import { chmod, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { root, withoutGeneratedApi } from "./bundling.ts";

/** What undici, through which every request goes, asks for: `>=22.19.0`. */
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
  console.error("kubectl-sluice: it needs Node ${least} or newer (not 23), and " + process.execPath + " is " + process.versions.node);
  return process.exit(2);
}
function require(name) {
  var found = process.getBuiltinModule(name);
  if (!found) throw new Error("there is no module " + name);
  return found;
}
`;
}

async function main(outfile: string): Promise<void> {
  const least = await readLeastVersion();
  await build({
    absWorkingDir: root,
    entryPoints: ["triggers/plugin/cli.ts"],
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    // Older ones must get as far as being told so.
    target: "node16",
    plugins: [withoutGeneratedApi],
    banner: { js: prelude(least) },
    footer: { js: "})();" },
    legalComments: "inline",
    logLevel: "warning",
  });
  await chmod(outfile, 0o755);
  const completion = join(dirname(outfile), "kubectl_complete-sluice");
  await writeFile(completion, '#!/bin/sh\nexec kubectl-sluice __complete "$@"\n');
  await chmod(completion, 0o755);
  console.log(relative(process.cwd(), outfile));
}

await main(process.argv[2] ?? join(root, "dist/kubectl-sluice"));
