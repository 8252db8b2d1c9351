/**
 * `npm run build:plugin`: the kubectl plugin as one file, `dist/kubectl-sluice`, or whatever path is given. Beside it is what
 * kubectl asks for completions, `kubectl_complete-sluice`.
 *
 * kubectl finds it anywhere on PATH by its name. It needs Node and no other file; with `--executable` it has Node inside.
 */
import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { bundlePlugin } from "./bundle-plugin.ts";
import { root } from "./bundling.ts";
import { writeCompletion } from "./completion.ts";
import { makeExecutable } from "./executable.ts";

async function main(outfile: string, isExecutable: boolean): Promise<void> {
  await bundlePlugin(outfile);
  if (isExecutable) await makeExecutable(outfile, outfile);
  await writeCompletion(outfile);
  console.log(relative(process.cwd(), outfile));
}

function readArguments(): { readonly outfile: string; readonly isExecutable: boolean } {
  const { values, positionals } = parseArgs({ options: { executable: { type: "boolean" } }, allowPositionals: true });
  const [outfile = "dist/kubectl-sluice", ...more] = positionals;
  if (more.length > 0) throw new Error(`it takes one FILE or none; given: ${positionals.length}`);
  return { outfile: resolve(positionals.length === 0 ? root : "", outfile), isExecutable: values.executable === true };
}

let given: ReturnType<typeof readArguments>;
try {
  given = readArguments();
} catch (error) {
  console.error(`build:plugin: ${messageOf(error)}`);
  process.exit(2);
}
await main(given.outfile, given.isExecutable);
