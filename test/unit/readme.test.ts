/** The README, held to what ships: the names that a user types, and what of rollout-operator is read. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { vocabulary } from "../../functions/shared/objects/vocabulary.ts";

const root = new URL("../../", import.meta.url);
const readme = await readFile(new URL("README.md", root), "utf8");

/** From the line that begins so to the next empty line that no list or code follows. */
function part(begins: string): string {
  const start = readme.indexOf(`\n${begins}`);
  assert.ok(start >= 0, `no line begins with "${begins}"`);
  const rest = readme.slice(start + 1);
  return rest.slice(0, /\n\n(?!- )/.exec(rest)?.index);
}

const keysIn = (text: string): Set<string> => new Set([...text.matchAll(/`([^`]+)`/g)].map(([, key = ""]) => key));

/** Every label and annotation that rollout-operator reads or writes (its specification, 1.1 to 1.3). */
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

test("a webhook that the README names is one that ships", async () => {
  const folder = new URL("knative/base/webhooks/", root);
  const names = new Set(["prepare-downscale-mimir", "no-downscale-mimir"]);
  for (const file of await readdir(folder)) {
    const text = await readFile(new URL(file, folder), "utf8");
    for (const [, name = ""] of text.matchAll(/^\s*(?:- )?name: (\S+)$/gm)) names.add(name.replace("default", "mimir"));
  }
  const named = [...readme.matchAll(/\b[a-z]+-[a-z]+[.-]mimir(?:\.grafana\.com)?\b/g)].map(([name]) => name);
  assert.ok(named.length > 5);
  for (const name of named) assert.ok(names.has(name), `${name} is not among ${[...names].join(", ")}`);
});

test("what the README says is read as it is, is in the vocabulary; what is not there yet, is not, and nothing is left out", () => {
  const read = keysIn(part("Of Grafana's rollout-operator"));
  const missing = keysIn(part("Not there yet"));
  const known = new Set<string>(vocabulary.map(({ key }) => key));
  for (const key of rolloutOperators) {
    assert.equal(read.has(key), known.has(key), `${key} is ${known.has(key) ? "" : "not "}read`);
    assert.equal(missing.has(key), !known.has(key), `${key} is ${known.has(key) ? "" : "not "}there`);
  }
});
