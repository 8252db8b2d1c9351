import { createHash } from "node:crypto";
import { access, mkdir, open, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { launch } from "./processes.ts";

/** Receives one line of progress for a person. */
export type Log = (line: string) => void;

/** Packages of one pinned Go module and how they are built. */
export interface GoBuild {
  /** Folder that holds go.mod, go.sum and one Go file, as seen from this file's. */
  readonly module: string;
  readonly packages: readonly string[];
  readonly ldflags: string;
}

/** The inputs of a folder of the cache. */
export interface Recipe {
  /** First part of the folder's name in the cache. */
  readonly name: string;
  readonly builds: readonly GoBuild[];
  /** Paths of other files from which the folder is made: it is made anew when one of them changes. */
  readonly sources?: readonly string[];
  /** Files that make the folder complete. */
  readonly files: readonly string[];
  /** Said before building, so that the user knows why nothing happens for minutes. */
  readonly expectation: string;
  /** Adds what no compiler makes. */
  readonly finish?: (folder: string, log: Log) => Promise<void>;
}

const LOCK_BEAT_MS = 2_000;
const LOCK_STALE_MS = 15_000;

/** The folder of a Go module that is pinned beside this file. */
export function moduleFolder(module: string): string {
  return join(import.meta.dirname, module);
}

/** The folder of built files, outside the repository: `$SLUICE_CACHE`, `$XDG_CACHE_HOME/sluice` or `~/.cache/sluice`. */
export function cacheFolder(): string {
  const { SLUICE_CACHE: own, XDG_CACHE_HOME: xdg } = process.env;
  if (own) return own;
  return xdg ? join(xdg, "sluice") : join(homedir(), ".cache", "sluice");
}

/** Whether `folder` has each of `files`. */
export async function holds(folder: string, files: readonly string[]): Promise<boolean> {
  const missing = await missingFiles(folder, files);
  return missing.length === 0;
}

/** Those of `files` that are not in `folder`. */
export async function missingFiles(folder: string, files: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    files.map((file) =>
      access(join(folder, file)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return files.filter((_, index) => !found[index]);
}

/** The arguments of `go build`, except the folder to which it writes. */
function goArguments(build: GoBuild): string[] {
  return ["build", "-trimpath", "-buildvcs=false", "-ldflags", build.ldflags];
}

/** The cache folder of a recipe. Its name changes when the recipe, a pinned version or a checksum does. */
export async function recipeFolder(recipe: Recipe): Promise<string> {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([process.platform, process.arch, recipe.files]));
  for (const build of recipe.builds) {
    const folder = moduleFolder(build.module);
    hash.update(JSON.stringify([goArguments(build), build.packages]));
    const sources = (await readdir(folder)).filter((file) => file.startsWith("go.") || file.endsWith(".go")).sort();
    for (const file of sources) {
      hash.update(`\n${build.module}/${file}\n`);
      hash.update(await readFile(join(folder, file)));
    }
  }
  for (const source of recipe.sources ?? []) {
    hash.update(`\n${basename(source)}\n`);
    hash.update(await readFile(source));
  }
  return join(cacheFolder(), `${recipe.name}-${hash.digest("hex").slice(0, 16)}`);
}

/**
 * The recipe's folder, built first if it is not in the cache. Two starts at once build once: the second waits. An interrupted
 * build leaves nothing that looks complete. Throws with the compiler's output if a build fails.
 */
export async function ensureBuilt(recipe: Recipe, log: Log): Promise<string> {
  const folder = await recipeFolder(recipe);
  if (await holds(folder, recipe.files)) return folder;
  await mkdir(cacheFolder(), { recursive: true });
  const unlock = await lock(`${folder}.lock`, log);
  try {
    if (await holds(folder, recipe.files)) return folder;
    await removeLeftovers(folder);
    log(`building ${recipe.name} into ${folder}`);
    log(recipe.expectation);
    const startedAt = Date.now();
    const temporary = `${folder}.building-${process.pid}`;
    await mkdir(temporary, { recursive: true });
    for (const build of recipe.builds) await goBuild(build, temporary, log);
    await recipe.finish?.(temporary, log);
    const missing = await missingFiles(temporary, recipe.files);
    if (missing.length > 0) throw new Error(`the build of ${recipe.name} did not make ${missing.join(", ")}`);
    await rm(folder, { recursive: true, force: true });
    await rename(temporary, folder);
    log(`built ${recipe.name} in ${Math.round((Date.now() - startedAt) / 1000)} s`);
    return folder;
  } finally {
    await unlock();
  }
}

async function goBuild(build: GoBuild, folder: string, log: Log): Promise<void> {
  log(`go build ${build.packages.join(" ")} (${build.module})`);
  await runGo([...goArguments(build), "-o", `${folder}/`, ...build.packages], build.module);
}

/**
 * Runs the go command in a pinned module's folder and returns its standard output. Throws without a go command, or with its
 * error output if it fails.
 */
export async function runGo(args: readonly string[], module: string): Promise<string> {
  const child = launch("go", args, {
    cwd: moduleFolder(module),
    env: { ...process.env, CGO_ENABLED: "0", GOWORK: "off" },
    output: "pipe",
  });
  const end = await child.ended;
  if (end.error) {
    throw new Error(
      `no go command (${end.error.message}): install Go (https://go.dev/dl), ` +
        "or, for a control plane, set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, " +
        "kube-controller-manager and kubectl",
    );
  }
  const { stdout, stderr } = child.printed();
  if (end.code !== 0) throw new Error(`go ${args[0]} in ${module} failed (${end.summary}):\n${stderr.trim()}`);
  return stdout;
}

/** Files that an earlier build left when it was killed. Only the holder of the lock may call this. */
async function removeLeftovers(folder: string): Promise<void> {
  const prefix = `${folder}.building-`;
  const entries = (await readdir(cacheFolder())).map((entry) => join(cacheFolder(), entry));
  await Promise.all(entries.filter((entry) => entry.startsWith(prefix)).map((entry) => rm(entry, { recursive: true })));
}

/**
 * Takes a lock file and returns the function that releases it. Its owner touches it while it works, because process ids would
 * mean nothing across containers that share a cache. If two owners should ever meet after a pause, both build the same thing
 * and the last rename wins.
 */
async function lock(path: string, log: Log): Promise<() => Promise<void>> {
  let isReported = false;
  for (;;) {
    try {
      const file = await open(path, "wx");
      await file.write(`${process.pid}\n`);
      await file.close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const age = await stat(path).then(
      (found) => Date.now() - found.mtimeMs,
      () => 0,
    );
    if (age > LOCK_STALE_MS) {
      await rm(path, { force: true });
      continue;
    }
    if (!isReported) log(`another start is building: waiting for ${path}`);
    isReported = true;
    await delay(500);
  }
  const beat = setInterval(() => {
    const now = new Date();
    // If another process or a user has removed the lock, the build goes on.
    utimes(path, now, now).catch(() => {});
  }, LOCK_BEAT_MS);
  beat.unref();
  return async () => {
    clearInterval(beat);
    await rm(path, { force: true });
  };
}
