/** Packages of Debian or Ubuntu, unpacked into a folder. Nothing is installed, and no rights of root are needed. */
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Log } from "../controlplane/build.ts";

const run = promisify(execFile);

export interface Unpacked {
  readonly wanted: readonly string[];
  /** Those of them and of their dependencies that are taken from the archive even if this machine has them. */
  readonly whole: RegExp;
}

/** Downloads these packages and their missing dependencies, verified by apt, and unpacks them below `root`. */
export async function unpackPackages(folder: string, { wanted, whole }: Unpacked, log: Log): Promise<void> {
  const apt = join(folder, "apt");
  const [lists, cache, loaded] = [join(apt, "lists"), join(apt, "cache"), join(apt, "loaded")];
  for (const made of [`${lists}/partial`, `${cache}/archives/partial`, loaded, join(folder, "root")]) {
    await mkdir(made, { recursive: true });
  }
  // Lists and caches of its own need no rights, and are never older than the archive.
  const own = [`Dir::State::Lists=${lists}`, `Dir::Cache=${cache}`, "APT::Sandbox::User="];
  const ask = (...args: string[]) =>
    run("apt-get", [...own.flatMap((option) => ["-o", option]), ...args], { cwd: loaded, maxBuffer: 64 * 1024 * 1024 });
  const install = ["install", "--print-uris", "--no-install-recommends", "--yes", ...wanted];
  log("apt-get update");
  await ask("update");
  const missing = namesIn((await ask(...install)).stdout);
  const all = namesIn((await ask("-o", "Dir::State::status=/dev/null", ...install)).stdout);
  const names = [...new Set([...missing, ...all.filter((name) => whole.test(name))])];
  log(`apt-get download ${names.join(" ")}`);
  await ask("download", ...names);
  for (const file of globSync("*.deb", { cwd: loaded }))
    await run("dpkg-deb", ["-x", join(loaded, file), join(folder, "root")]);
  await rm(apt, { recursive: true });
}

/** For LD_LIBRARY_PATH: the libraries that were unpacked below `root`. */
export function librariesIn(folder: string): string {
  const found = globSync("root/{usr/,}lib/*-linux-*", { cwd: folder });
  return found.map((path) => join(folder, path)).join(":");
}

/** Names of packages in the output of `apt-get --print-uris`: 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH. */
function namesIn(printed: string): string[] {
  return [...printed.matchAll(/^'[^']+' ([^_\s]+)_\S+\.deb /gm)].map(([, name]) => name ?? "");
}
