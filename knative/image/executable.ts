/**
 * Node's single executable application: a copy of the Node that runs this, which runs one script and no other.
 *
 * `postject` puts the script into the copy, until a Node that users have does that by itself (`--build-sea`).
 */
import { execFile } from "node:child_process";
import { chmod, copyFile, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** Node looks at the letter after these words to find out whether a script is in it. */
const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/**
 * Writes an executable of 130 MB for this machine's platform. It takes ten seconds.
 *
 * @param script a file of JavaScript that needs no other file; it may be `outfile`
 * @throws Error where the platform is not Linux: a changed program has to be signed again elsewhere
 */
export async function makeExecutable(script: string, outfile: string): Promise<void> {
  if (process.platform !== "linux")
    throw new Error(`an executable is made on Linux alone, and this is ${process.platform}`);
  // Beside the result, so that it can be renamed.
  const folder = await mkdtemp(join(dirname(outfile), ".executable-"));
  try {
    const [main, blob] = [join(folder, "main.cjs"), join(folder, "blob")];
    const [config, program] = [join(folder, "config.json"), join(folder, "program")];
    // Its first line is for a shell.
    await writeFile(main, (await readFile(script, "utf8")).replace(/^#!.*/, ""));
    // A user's NODE_OPTIONS are for another Node.
    const settings = { disableExperimentalSEAWarning: true, useCodeCache: true, execArgvExtension: "none" };
    await writeFile(config, JSON.stringify({ main, output: blob, ...settings }));
    await execute(process.execPath, ["--experimental-sea-config", config]);
    await copyFile(process.execPath, program);
    await chmod(program, 0o755);
    const postject = createRequire(import.meta.url).resolve("postject/dist/cli.js");
    await execute(process.execPath, [postject, program, "NODE_SEA_BLOB", blob, "--sentinel-fuse", fuse]);
    await rename(program, outfile);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
