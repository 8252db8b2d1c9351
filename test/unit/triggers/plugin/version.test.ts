/** Which versions kubectl sluice version shows, and where it warns. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import manifest from "../../../../package.json" with { type: "json" };
import { Harness, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const [major, minor] = manifest.version.split(".");
const same = `${major}.${minor}.9`;
const later = `${major}.${Number(minor) + 1}.0`;

function addReplica(
  harness: Harness,
  name: string,
  images: readonly string[],
  phase = "Running",
  namespace = "db",
): void {
  const labels = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": "admission" };
  const spec = { nodeName: "n", containers: images.map((image, index) => ({ name: `c${index}`, image })) };
  harness.world.store.create("pods", namespace, { metadata: { name, labels }, spec });
  harness.world.store.patch("pods", { namespace, name }, { status: { phase } }, "status");
}

const ready = async () => ({ major: "1", minor: "36", gitVersion: "v1.36.2" });

function run(harness: Harness, line = "version", calls: object = { ready }) {
  return sluice(harness, line, harness.cluster, calls);
}

test("version shows the plugin, the API server and each replica by its image, of which it ignores sidecars", async () => {
  const harness = new Harness();
  addReplica(harness, "sluice-1", ["envoy:2.0.0", `registry.example:5000/team/sluice:v${same}@sha256:0123`]);
  addReplica(harness, "sluice-2", [`registry.example/sluice:${same}`]);
  addReplica(harness, "job", [`sluice:${later}`], "Succeeded");
  const { code, out, err } = await run(harness);
  assert.deepEqual([code, err, writes(harness)], [0, [], []]);
  assert.match(
    out,
    new RegExp(`^Plugin: ${manifest.version}\nAPI server: v1\\.36\\.2\n\nREPLICA +VERSION +COMPONENT +IMAGE\n`),
  );
  assert.match(
    out,
    new RegExp(`^db/sluice-1 +${same} +admission +registry\\.example:5000/team/sluice:v${same}@sha256:0123$`, "m"),
  );
  assert.match(out, new RegExp(`^db/sluice-2 +${same} `, "m"));
  assert.doesNotMatch(out, /WARNING|job/);
});

test("it warns where a replica has another minor version, and not where its image says none", async () => {
  const harness = new Harness();
  addReplica(harness, "a", [`sluice:${later}`]);
  addReplica(harness, "b", [`sluice:${later}`], "Running", "other");
  for (const [name, image] of Object.entries({
    c: "sluice@sha256:0123",
    d: "sluice:latest",
    e: "localhost:5000/sluice",
  }))
    addReplica(harness, name, [image]);
  const { code, out } = await run(harness);
  assert.equal(code, 0);
  assert.match(out, /^db\/c +- +admission +sluice@sha256:0123\ndb\/d +- .+\ndb\/e +- /m);
  const warnings = out.split("\n").filter((line) => line.startsWith("WARNING"));
  const minors = [later, manifest.version].map((version) => version.split(".").slice(0, 2).join("."));
  assert.deepEqual(warnings, [
    `WARNING 2 replicas have version ${minors[0]}, and this plugin has ${minors[1]}: install the plugin of the same version`,
  ]);
  assert.match((await run(harness, "version -n other")).out, /^WARNING 1 replica has version /m);
});

test("a user who may not list pods of all namespaces sees those of one, and the missing right is named", async () => {
  const harness = new Harness();
  addReplica(harness, "a", [`sluice:${same}`]);
  harness.interfere = ({ verb, given: [, query] }) => {
    if (verb === "list" && (query as { namespace?: string }).namespace === undefined)
      throw refused(403, 'User "u" cannot list resource "pods"');
  };
  const { code, out, err } = await run(harness);
  assert.deepEqual([code, err], [0, ['a right is missing: User "u" cannot list resource "pods"']]);
  assert.match(out, /^db\/a /m);
});

test("what cannot be read is unknown, with code 1 only where that is all but the plugin itself", async () => {
  const harness = new Harness();
  assert.match((await run(harness)).out, /\nReplicas: none found\n$/);
  const away = new ClusterError({ code: 0, reason: "Timeout", message: "away", verb: "get", resource: "version" });
  const calls = { ready: () => Promise.reject(away) };
  const partly = await run(harness, "version", calls);
  assert.deepEqual([partly.code, partly.err], [0, ["the API server does not answer: away"]]);
  harness.interfere = () => {
    throw away;
  };
  const { code, out } = await run(harness, "version", calls);
  assert.equal(code, 1);
  assert.equal(out, `Plugin: ${manifest.version}\nAPI server: unknown\nReplicas: unknown\n`);
});

test("control and direction characters of an image are shown as escapes", async () => {
  const harness = new Harness();
  addReplica(harness, "a", ["sluice\u202e:\u001b[31m"]);
  assert.match((await run(harness)).out, /sluice\\u202e:\\u001b\[31m$/m);
});
