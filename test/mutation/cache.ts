/** Findings of earlier runs: a run of unchanged files ends at once, and an interrupted one continues. */
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The result of a mutant in tests, or in seeds. */
export interface Finding {
  readonly id: string;
  readonly part: "tests" | "seeds";
  /** Hash of everything that could change the result. */
  readonly key: string;
  /** What killed it; undefined if it survived. */
  readonly by: string | undefined;
  /** False if nothing that ran would have noticed the change. */
  readonly felt: boolean;
}

export class Cache {
  readonly #file: string;
  readonly #folder: string;
  readonly #findings = new Map<string, Finding>();

  /** Reads the folder's findings, and keeps the last one of each mutant and part. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#file = join(folder, "findings.jsonl");
    mkdirSync(folder, { recursive: true });
    for (const line of linesOf(this.#file)) {
      const finding = parseLine(line);
      if (finding !== undefined) this.#findings.set(`${finding.part} ${finding.id}`, finding);
    }
    const kept = [...this.#findings.values()].map((finding) => `${JSON.stringify(finding)}\n`);
    writeFileSync(this.#file, kept.join(""));
  }

  /** The finding, if it still holds. */
  find(id: string, part: Finding["part"], key: string): Finding | undefined {
    const finding = this.last(id, part);
    return finding?.key === key ? finding : undefined;
  }

  /** The last finding, whatever has changed since. */
  last(id: string, part: Finding["part"]): Finding | undefined {
    return this.#findings.get(`${part} ${id}`);
  }

  add(finding: Finding): void {
    this.#findings.set(`${finding.part} ${finding.id}`, finding);
    appendFileSync(this.#file, `${JSON.stringify(finding)}\n`);
  }

  /** A larger value, of which only the last one is kept. */
  async remember<T>(name: string, key: string, make: () => Promise<T>): Promise<T> {
    const file = join(this.#folder, `${name}.json`);
    const [text] = linesOf(file);
    const known = text === undefined ? undefined : (JSON.parse(text) as { key: string; value: T });
    if (known?.key === key) return known.value;
    const value = await make();
    rmSync(file, { force: true });
    writeFileSync(file, JSON.stringify({ key, value }));
    return value;
  }
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n").filter(Boolean);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** The last line of an interrupted run may be incomplete. */
function parseLine(line: string): Finding | undefined {
  try {
    return JSON.parse(line) as Finding;
  } catch {
    return undefined;
  }
}
