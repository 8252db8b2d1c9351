/**
 * Compares the documents with what ships: the names that users type, what Sluice reads of rollout-operator, what it uses of
 * client-node.
 */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { alwaysServed, presets, table } from "../../triggers/table.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string): Promise<string> => readFile(new URL(path, root), "utf8");
const migration = await read("knative/from-rollout-operator.md");

/** From the line that begins like this to the next empty line without a list or code after it. */
function part(text: string, begins: string): string {
  const start = text.indexOf(`\n${begins}`);
  assert.ok(start >= 0, `no line begins with "${begins}"`);
  const rest = text.slice(start + 1);
  return rest.slice(0, /\n\n(?!- )/.exec(rest)?.index);
}

const keysIn = (text: string): Set<string> => new Set([...text.matchAll(/`([^`]+)`/g)].map(([, key = ""]) => key));

/** Every label and annotation that rollout-operator reads or writes. */
const rolloutOperators = [
  "rollout-group",
  "rollout-max-unavailable",
  "grafana.com/rollout-paused",
  "grafana.com/rollout-downscale-leader",
  "grafana.com/rollout-upscale-only-when-leader-ready",
  "grafana.com/min-time-between-zones-downscale",
  "grafana.com/last-downscale",
  "grafana.com/rollout-mirror-replicas-from-resource-name",
  "grafana.com/rollout-delayed-downscale",
  "grafana.com/rollout-prepare-delayed-downscale-url",
  "grafana.com/rollout-force-replicas",
  "grafana.com/prepare-downscale",
  "grafana.com/prepare-downscale-http-path",
  "grafana.com/prepare-downscale-http-port",
  "grafana.com/no-downscale",
  "grafana.com/inject-rollout-operator-ca",
  "grafana.com/namespace",
] as const;

test("each webhook or policy that the README, the manifests' README or the migration names is among the manifests", async () => {
  const names = new Set(["prepare-downscale-mimir"]);
  for (const folder of ["knative/base/webhooks/", "knative/base/fence/"])
    for (const file of await readdir(new URL(folder, root))) {
      const text = await readFile(new URL(folder + file, root), "utf8");
      for (const [, name = ""] of text.matchAll(/^\s*(?:- )?name: (\S+)$/gm))
        names.add(name.replace("default", "mimir"));
    }
  for (const path of ["README.md", "knative/README.md", "knative/from-rollout-operator.md"]) {
    const text = await read(path);
    const named = [...text.matchAll(/\b(?:[a-z]+-)+[a-z]+[.-]mimir(?:\.grafana\.com)?\b(?!\.svc)/g)].map(
      ([name]) => name,
    );
    assert.ok(named.length >= (path.includes("rollout") ? 6 : 1), `${path} names ${named.length}`);
    for (const name of named) assert.ok(names.has(name), `${path}: ${name} is not among ${[...names].join(", ")}`);
  }
});

test("the migration lists each annotation of rollout-operator as taken over or as missing, as the table of annotations has it or not", () => {
  const taken = keysIn(part(migration, "Of Grafana's rollout-operator"));
  const missing = keysIn(part(migration, "Not there yet"));
  const known = new Set<string>(table.flatMap(({ reads, writes }) => [...reads, ...writes]).map(({ key }) => key));
  for (const key of rolloutOperators) {
    assert.equal(taken.has(key), known.has(key), `${key} is ${known.has(key) ? "" : "not "}read`);
    assert.equal(missing.has(key), !known.has(key), `${key} is ${known.has(key) ? "" : "not "}there`);
  }
});

test("the README of the room names the file that uses client-node, and says why Sluice does not use its calls", async () => {
  const sentence = part(await read("functions/shared/kubernetes/README.md"), "`@kubernetes/client-node`");
  assert.match(sentence, /kubeconfigs/);
  assert.match(sentence, /npm run bench -- cold-start/);
  const files = globSync("{functions,triggers,knative}/**/*.ts", { cwd: root });
  const texts = await Promise.all(files.map(async (path) => ({ path, text: await read(path) })));
  const importing = texts.filter(({ text }) => /(?:from |import\()"@kubernetes\/client-node/.test(text));
  assert.ok(importing.length > 0);
  const foreign = importing.filter(({ path }) => !sentence.includes(`\`${path}\``)).map(({ path }) => path);
  assert.deepEqual(foreign, []);
});

test("the migration names the functions for which the Role of the operator's account has rights", () => {
  const served = [...(presets["rollout-operator"] ?? []), ...alwaysServed].map(({ name }) => name);
  assert.ok(migration.includes(`\n${served.join(",")}\n`));
});
