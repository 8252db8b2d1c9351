/**
 * `npm run render`: writes the manifests below `knative/base`, or the folder that it is given, and removes those there that are
 * rendered no longer. Says which it wrote, and that their image is a placeholder. `knative/kinds.yaml` lists the kinds that users
 * may name. Where a right cannot be given to one, it says why, and writes nothing.
 */
import { globSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { admissionFunctions, cronFunctions, groupFunctions } from "../../triggers/table.ts";
import { readCompanions } from "./companions.ts";
import { type ListedKind, parseKinds } from "./kinds.ts";
import { renderManifests } from "./manifests.ts";
import { placeholderHint } from "./object.ts";

const base = process.argv[2] ?? join(import.meta.dirname, "../base");
const kindsFile = "knative/kinds.yaml";

async function readKinds(): Promise<readonly ListedKind[]> {
  const text = await readFile(join(import.meta.dirname, "../..", kindsFile), "utf8");
  try {
    return parseKinds(text);
  } catch (error) {
    console.error(`${kindsFile}: ${messageOf(error)}.`);
    process.exit(1);
  }
}

const kinds = await readKinds();
const files = renderManifests({
  groupFunctions,
  admissionFunctions,
  cronFunctions,
  kinds,
  companions: readCompanions(),
});

for (const path of globSync("*/*.yaml", { cwd: base })) {
  // CRDs are written by hand: they are rollout-operator's.
  if (!path.startsWith("crds/") && !files.has(path)) await rm(join(base, path));
}
for (const [path, text] of files) {
  const file = join(base, path);
  const before = await readFile(file, "utf8").catch(() => undefined);
  if (before === text) continue;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  console.log(`knative/base/${path}`);
}
console.log(`${placeholderHint}.`);
