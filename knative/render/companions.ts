/** Companions: scripts that run in other programs' pods, each in a folder of its function. */
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { labelsOf, type Manifest } from "./object.ts";

/** A folder with scripts, which users mount into their pods as a ConfigMap of that name. */
export interface Companion {
  readonly name: string;
  /** The text of each script, by the name of its file. */
  readonly scripts: Readonly<Record<string, string>>;
}

const functions = join(import.meta.dirname, "../../functions");

/** The companions of all functions. Throws Error when two have the same name: users could mount only one of them. */
export function readCompanions(folder: string = functions): readonly Companion[] {
  const files = globSync("*/*/*.sh", { cwd: folder }).sort();
  const byName = Map.groupBy(files, (file) => basename(dirname(file)));
  return [...byName].map(([name, scripts]) => {
    const folders = new Set(scripts.map((file) => dirname(file)));
    if (folders.size > 1) throw new Error(`two companions are called ${name}: ${[...folders].join(", ")}`);
    return {
      name,
      scripts: Object.fromEntries(scripts.map((file) => [basename(file), readFileSync(join(folder, file), "utf8")])),
    };
  });
}

/** The ConfigMap of a companion. */
export function configMapOf({ name, scripts }: Companion): Manifest {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels: labelsOf(name) }, data: scripts };
}
