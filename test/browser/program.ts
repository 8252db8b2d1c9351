/** Chromium without windows: that of this machine, or else packages of Debian, unpacked into the cache. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser } from "playwright-core";
import { ensureBuilt, holds, type Log, type Recipe, recipeFolder } from "../controlplane/build.ts";
import { librariesIn, unpackPackages } from "../support/debian.ts";

const name = "chromium-headless-shell";
const program = `root/usr/lib/chromium/${name}`;

const recipe: Recipe = {
  name: "chromium",
  builds: [],
  files: [program, "root/etc/fonts/fonts.conf"],
  expectation: "this happens once: about 100 MB of packages are loaded and unpacked, in about 15 s",
  finish: (folder, log) => unpackPackages(folder, { wanted: [name], whole: /^(chromium|font)/ }, log),
};

interface Program {
  readonly path: string;
  /** Its environment. */
  readonly env: Readonly<Record<string, string>>;
}

function ownProgram(): Program | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
  return found === undefined ? undefined : { path: found, env: {} };
}

const programIn = (folder: string): Program => ({
  path: join(folder, program),
  env: { LD_LIBRARY_PATH: librariesIn(folder), FONTCONFIG_SYSROOT: join(folder, "root") },
});

async function findBrowser(): Promise<Program | undefined> {
  const own = ownProgram();
  if (own !== undefined) return own;
  const folder = await recipeFolder(recipe);
  return (await holds(folder, recipe.files)) ? programIn(folder) : undefined;
}

/** Downloads the browser if it is missing. Throws without apt-get, or if its archive cannot be reached. */
export async function ensureBrowser(log: Log): Promise<void> {
  if (ownProgram() === undefined) await ensureBuilt(recipe, log);
}

/** The browser for the tests of a file; undefined if it is missing, which is reported. In CI it throws instead. */
export async function browserForTests(): Promise<(() => Promise<Browser>) | undefined> {
  const found = await findBrowser();
  // `npm test` imports this file, and needs no browser for it.
  const { chromium } = await import("playwright-core");
  // A sandbox needs rights that root in a container does not have. `evil.test` is the name of a foreign website.
  const args = ["--no-sandbox", "--host-resolver-rules=MAP evil.test 127.0.0.1"];
  const env = { ...process.env, ...found?.env };
  if (found !== undefined) return () => chromium.launch({ executablePath: found.path, args, env });
  const how = "run `npm test -- control` on a Debian that reaches its archive (once, about 15 s)";
  if (process.env.CI === "true") throw new Error(`there is no browser to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a browser. To get it, ${how}.\n`);
  return undefined;
}
