/**
 * The scripts of the image, and the compiled code that `compile.ts` has written beside them, in the folder `compiled`.
 *
 * That code is taken from a process in which the script has run, and holds each function that ran. What Node keeps by itself
 * (`enableCompileCache`) is taken before anything runs: then nearly every function is parsed and compiled in each start.
 * V8 takes it only if its version and its flags are those that wrote it; where they are not, all is compiled again.
 */
import type { Script } from "node:vm";

// By name, and not imported, because an import would read all exports.
const { existsSync, readFileSync } = process.getBuiltinModule("node:fs");
const { dirname, join, relative } = process.getBuiltinModule("node:path");
const vm = process.getBuiltinModule("node:vm");

/** A script that runs, and the place of its compiled code. */
export interface Loaded {
  readonly script: Script;
  readonly compiled: string;
}

/**
 * Runs the bundle of the function that FUNCTION names. Several names are for the bundle of all, and so is one that is none: it
 * says so.
 *
 * @param folder where the bundles are
 * @param onLoad is called with each script before it runs
 */
export function startServer(folder: string, onLoad: (loaded: Loaded) => void = () => {}): void {
  const exported = new Map<string, object>();
  const require = (from: string) => (name: string) =>
    name.startsWith(".") ? load(join(from, name)) : process.getBuiltinModule(name);
  const load = (file: string): object => {
    const known = exported.get(file);
    if (known !== undefined) return known;
    const module = { exports: {} };
    exported.set(file, module.exports);
    const compiled = join(folder, "compiled", relative(folder, file));
    const script = readScript(file, compiled);
    // Scripts that are loaded later may come after a flag has been changed, and are small.
    if (script.cachedDataRejected && exported.size === 1) {
      console.error(`sluice: ${file} was compiled by another Node, or with other flags for V8, and is compiled again`);
    }
    onLoad({ script, compiled });
    script.runInThisContext()(module.exports, require(dirname(file)), module, file, dirname(file));
    exported.set(file, module.exports);
    return module.exports;
  };
  const name = process.env.FUNCTION?.trim() || "all";
  const own = join(folder, name, "main.cjs");
  load(/^[a-z-]+$/.test(name) && existsSync(own) ? own : join(folder, "all/main.cjs"));
}

function readScript(file: string, compiled: string): Script {
  const cachedData = existsSync(compiled) ? readFileSync(compiled) : undefined;
  // esbuild writes nothing but ASCII, which needs no decoding.
  const source = `(function (exports, require, module, __filename, __dirname) {"use strict";${readFileSync(file, "latin1")}\n})`;
  return new vm.Script(source, { filename: file, ...(cachedData && { cachedData }) });
}
