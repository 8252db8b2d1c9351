/** Modules, chart and documents name the same two versions of Kubernetes: the newest that tests run on, and the oldest. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { load } from "js-yaml";
import { table } from "../../triggers/table.ts";
import { KUBERNETES } from "../controlplane/assets.ts";
import { moduleFolder } from "../controlplane/build.ts";

const root = join(import.meta.dirname, "../..");
const { newest, oldest } = KUBERNETES;
const read = (path: string) => readFile(join(root, path), "utf8");
/** Major and minor. */
const minorOf = (version: string) => version.split(".").slice(0, 2).join(".");

test("each pinned module has its version of Kubernetes, and each library of Kubernetes the same", async () => {
  for (const { version, module } of Object.values(KUBERNETES)) {
    const text = await readFile(join(moduleFolder(module), "go.mod"), "utf8");
    assert.equal(/^require k8s\.io\/kubernetes v(\S+)$/m.exec(text)?.[1], version);
    const replaced = [...text.matchAll(/^\t(k8s\.io\/\S+) => (\S+) v(\S+)$/gm)].map(([, from, to, one]) => [
      from === to,
      one,
    ]);
    assert.ok(replaced.length > 20, `${replaced.length} libraries`);
    for (const one of replaced) assert.deepEqual(one, [true, version.replace(/^1\./, "0.")], module);
  }
});

test("the oldest version that the chart takes is the one that its suites run on, with what clouds add to it", async () => {
  const { kubeVersion } = load(await read("knative/chart/Chart.yaml")) as { kubeVersion: string };
  assert.equal(kubeVersion, `>=${minorOf(oldest.version)}.0-0`);
});

test("the documents name both versions, and no other but those that a function needs", async () => {
  for (const path of ["knative/README.md", "knative/chart/README.md", "test/controlplane/README.md"]) {
    const text = await read(path);
    for (const { version } of [oldest, newest]) assert.ok(text.includes(version), `${path}: ${version}`);
  }
  const documents = globSync("**/*.md", { cwd: root, exclude: ["node_modules/**", "CHANGELOG.md"] });
  assert.ok(documents.length > 20);
  const minors: readonly string[] = [
    minorOf(oldest.version),
    ...table.flatMap(({ leastKubernetes = [] }) => leastKubernetes),
  ];
  for (const path of documents) {
    const text = (await read(path)).replaceAll(/\s+/g, " ");
    const whole = [...text.matchAll(/Kubernetes (1\.\d+\.\d+)(?: and (1\.\d+\.\d+))?/g)].flatMap((found) =>
      found.slice(1).filter(Boolean),
    );
    const known: readonly string[] = [oldest.version, newest.version];
    for (const version of whole) assert.ok(known.includes(version), `${path}: ${version}`);
    for (const [, minor = ""] of text.matchAll(/\b(?:[Bb]efore|[Ff]rom|needs|older than) Kubernetes (1\.\d+)\b/g))
      assert.ok(minors.includes(minor), `${path}: ${minor}`);
  }
});
