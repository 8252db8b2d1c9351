/** The accepted survivors, each with the reason why nothing can kill it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface AcceptedSurvivor {
  readonly id: string;
  readonly file: string;
  readonly within: string;
  /** For the reader: only the id counts. */
  readonly change: string;
  readonly why: string;
}

/** Throws if an entry has no reason, or occurs twice. */
export function readSurvivors(root: string, file: string): Map<string, AcceptedSurvivor> {
  const list = JSON.parse(readFileSync(join(root, file), "utf8")) as AcceptedSurvivor[];
  const accepted = new Map<string, AcceptedSurvivor>();
  for (const survivor of list) {
    const { id, why } = survivor;
    if (typeof id !== "string" || id === "") throw new Error(`${file}: an entry has no id`);
    if (typeof why !== "string" || !/\S \S/.test(why)) throw new Error(`${file}: ${id} lacks its reason`);
    if (accepted.has(id)) throw new Error(`${file}: ${id} stands there twice`);
    accepted.set(id, survivor);
  }
  return accepted;
}
