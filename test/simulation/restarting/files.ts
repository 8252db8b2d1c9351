/** The files of simulated processes: a user brings new ones, some of which let no process start. */
import type { Draw } from "../draw.ts";

const sumOf = (version: number): string => `1:${String(version).padStart(64, "0")}`;

export class Files {
  #version = 1;
  /** The version of a StatefulSet that has none of its own. */
  #ofOthers = 1;
  readonly #ofZone = new Map<string, number>();
  readonly #broken = new Set<string>();

  /** New files for a StatefulSet, or for one pod and those that are made later. Returns their sum and a description. */
  bring(draw: Draw, zone?: string): { readonly sum: string; readonly text: string } {
    const version = ++this.#version;
    if (zone === undefined) this.#ofOthers = version;
    else this.#ofZone.set(zone, version);
    const sum = sumOf(version);
    if (!draw.chance(0.8)) this.#broken.add(sum);
    return { sum, text: `files ${version}${this.isWhole(sum) ? "" : ", which are broken"}` };
  }

  /** The sum of the files that a new pod of a StatefulSet has. */
  newestOf(zone: string): string {
    return sumOf(this.#ofZone.get(zone) ?? this.#ofOthers);
  }

  isWhole(sum: string): boolean {
    return !this.#broken.has(sum);
  }

  mendAll(): void {
    this.#broken.clear();
  }
}
