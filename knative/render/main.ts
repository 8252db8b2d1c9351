/**
 * `npm run render`: writes the manifests below `knative/base` and the chart below `knative/chart`, or the folders that it is
 * given for the first or for both. Removes files there that are rendered no longer. Says which it wrote, and that their image is
 * a placeholder. `knative/kinds.yaml` lists the kinds that users may name. Where a right cannot be given to one, it says why, and
 * writes nothing.
 */
import { globSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";
import { handWritten, renderChart } from "./chart/chart.ts";
import { chartSources } from "./chart/sources.ts";
import { readCompanions } from "./companions.ts";
import { type ListedKinds, parseKinds } from "./kinds.ts";
import { renderManifests } from "./manifests.ts";
import { placeholderHint } from "./object.ts";

const here = [join(import.meta.dirname, "../base"), join(import.meta.dirname, "../chart")];
const [base, chart] = process.argv.length > 2 ? process.argv.slice(2) : here;
const kindsFile = "knative/kinds.yaml";

async function readKinds(): Promise<ListedKinds> {
  const text = await readFile(join(import.meta.dirname, "../..", kindsFile), "utf8");
  try {
    return parseKinds(text);
  } catch (error) {
    console.error(`${kindsFile}: ${messageOf(error)}.`);
    process.exit(1);
  }
}

const kinds = await readKinds();
const functions = {
  groupFunctions,
  admissionFunctions,
  cronFunctions,
  statusFunctions,
  kinds,
  companions: readCompanions(),
};

/** Writes the files that differ, and names them. Removes files that are neither rendered nor written by hand. */
async function write(
  folder: string,
  shown: string,
  files: ReadonlyMap<string, string>,
  isHandWritten: (path: string) => boolean,
): Promise<void> {
  const there = globSync("**/*.*", { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { parentPath, name } of there) {
    const path = relative(folder, join(parentPath, name));
    if (!files.has(path) && !isHandWritten(path)) await rm(join(folder, path));
  }
  for (const [path, text] of files) {
    const file = join(folder, path);
    const before = await readFile(file, "utf8").catch(() => undefined);
    if (before === text) continue;
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
    console.log(`${shown}/${path}`);
  }
}

// CRDs are written by hand, because they are rollout-operator's.
if (base !== undefined)
  await write(base, "knative/base", renderManifests(functions), (path) => path.startsWith("crds/"));
if (chart !== undefined)
  await write(chart, "knative/chart", renderChart(chartSources(functions)), (path) => handWritten.includes(path));
console.log(`${placeholderHint}.`);
