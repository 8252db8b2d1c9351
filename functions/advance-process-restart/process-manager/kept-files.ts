/**
 * The files of a Secret: their sum, and the copies of them that a process starts with. They hold passwords, so that the copies
 * stay in memory.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/** The files of a Secret, by key. */
export type SecretFiles = ReadonlyMap<string, Buffer>;

/** Names the method of a sum. Sums of two methods are never compared. */
const method = "1";
const sumPattern = /^1:[\da-f]{64}$/;
/** How often the mounted files are read again when others come meanwhile. */
const readingAttempts = 3;

/**
 * SHA-256 over the name of each file, its length in decimal, and its bytes, in the order of the names. A zero byte ends the name,
 * and another one the length. `runner.sh` computes the same.
 */
export function sumOf(files: SecretFiles): string {
  const hash = createHash("sha256");
  const names = [...files.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  for (const name of names) {
    const bytes = files.get(name) ?? Buffer.alloc(0);
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return `${method}:${hash.digest("hex")}`;
}

/** True for a sum that files can have. One of another method is none. */
export const isSum = (text: string): boolean => sumPattern.test(text);

/** The kubelet replaces the link `..data` at once when it brings other files. A folder without it is taken as it is. */
function resolveMounted(folder: string): string {
  try {
    return join(folder, readlinkSync(join(folder, "..data")));
  } catch {
    return folder;
  }
}

/** The files that are mounted, all of one moment. Undefined where there are none, or they cannot be read. */
export function readMounted(folder: string): SecretFiles | undefined {
  for (let attempt = 0; attempt < readingAttempts; attempt++) {
    const from = resolveMounted(folder);
    try {
      const names = readdirSync(from).filter((name) => !name.startsWith(".."));
      const files = new Map(names.map((name) => [name, readFileSync(join(from, name))]));
      if (resolveMounted(folder) === from) return files.size === 0 ? undefined : files;
    } catch {
      // The kubelet removes what it has replaced.
    }
  }
  return undefined;
}

/** Copies by sum, each in a folder of its own, which both halves of the process manager know. */
export class KeptFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  has(sum: string): boolean {
    return isSum(sum) && existsSync(this.#pathOf(sum));
  }

  /** Throws if the copy cannot be written. The runner sees all of it or nothing. */
  keep(sum: string, files: SecretFiles): void {
    const made = join(this.#folder, "kept");
    rmSync(made, { recursive: true, force: true });
    mkdirSync(made, { mode: 0o770 });
    for (const [name, bytes] of files) writeFileSync(join(made, name), bytes, { mode: 0o660 });
    renameSync(made, this.#pathOf(sum));
  }

  /** Removes all copies but these, and but the one that the runner has linked. */
  removeOthers(sums: readonly (string | undefined)[]): void {
    const wanted = new Set([...sums.flatMap((sum) => (sum === undefined ? [] : folderOf(sum))), this.#linked()]);
    const found = readdirSync(this.#folder).filter((name) => isSum(name.replace("-", ":")));
    for (const name of found.filter((one) => !wanted.has(one))) {
      rmSync(join(this.#folder, name), { recursive: true, force: true });
    }
  }

  #linked(): string | undefined {
    try {
      return readlinkSync(join(this.#folder, "current"));
    } catch {
      return undefined;
    }
  }

  #pathOf(sum: string): string {
    return join(this.#folder, folderOf(sum));
  }
}

/** Some programs take no path with a colon. */
const folderOf = (sum: string): string => sum.replace(":", "-");
