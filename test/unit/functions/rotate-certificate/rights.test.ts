/** The rotation with fewer rights than it could use: what it may not create or write, or is configured not to. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { dataOf } from "../../../../functions/shared/certificates/secret.ts";
import { ClusterError, type WebhookConfigurationObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { CertificateWorld, generationOf } from "../../../support/certificate-world.ts";

function forbidden(message: string): ClusterError {
  return new ClusterError({ code: 403, reason: "Forbidden", message, verb: "patch", resource: "" });
}

test("Sluice reports a missing Secret that it may not create with the command, and fills one that a user creates empty", async (context) => {
  const generated = context.mock.method(crypto.subtle, "generateKey");
  const world = new CertificateWorld();
  world.addConfiguration("one");
  const message = 'secrets is forbidden: User "x" cannot create resource "secrets"';
  let tries = 0;
  world.onWrite = (when, what) => {
    if (when !== "before" || what !== "create secrets") return;
    tries++;
    throw forbidden(message);
  };
  const run = world.start();
  const { guard, message: expected, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["secret-missing", 5_000]);
  const command = "kubectl -n mimir create secret generic certificate";
  const reported = `there is no Secret mimir/certificate, and Sluice may not make it. Type ${command}; Sluice fills it then (${message})`;
  assert.equal(expected, reported);
  world.advanceSeconds(29.9);
  assert.deepEqual([(await run()).guard, tries], ["secret-missing", 1], "tried again after thirty seconds");
  world.advanceSeconds(0.1);
  assert.deepEqual([(await run()).guard, tries], ["secret-missing", 2], "a user may have granted the right");
  const events = world.store.list("events").items.map(({ reason, message: notified }) => `${reason} ${notified}`);
  assert.deepEqual(events, [`CertificateWaiting ${expected}`], "once");
  world.store.create("secrets", "mimir", { metadata: { name: "certificate" }, type: "Opaque" });
  assert.equal((await run()).guard, "done");
  assert.equal(generated.mock.callCount(), 2, "keys that no client was shown are good for the next try");
  world.assertTrusted();
});

test("in a missing namespace Sluice waits for the namespace, names it, and keeps the same keys", async (context) => {
  const generated = context.mock.method(crypto.subtle, "generateKey");
  const world = new CertificateWorld();
  let isThere = false;
  let tries = 0;
  world.onWrite = (when, what) => {
    if (isThere || when !== "before") return;
    if (what === "create secrets") tries++;
    const message = 'namespaces "mimir" not found';
    throw new ClusterError({ code: 404, reason: "NotFound", message, verb: "create", resource: "secrets" });
  };
  const run = world.start();
  const { guard, message, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs, tries], ["secret-missing", 5_000, 1]);
  const reported =
    "there is no namespace mimir for the Secret mimir/certificate. Make it, or set NAMESPACE to another one";
  assert.equal(message, `${reported}; Sluice tries again (namespaces "mimir" not found)`);
  world.advanceSeconds(30);
  assert.deepEqual([(await run()).guard, tries], ["secret-missing", 2], "a user may have made it");
  isThere = true;
  world.advanceSeconds(30);
  assert.equal((await run()).guard, "done");
  assert.equal(generated.mock.callCount(), 2, "keys that no client was shown are good for the next try");
});

test("Sluice reports a configuration of another name that it has no right to once, and no step waits for it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  const resource = "validatingwebhookconfigurations";
  const message = `${resource} "theirs" is forbidden: User "x" cannot patch resource "${resource}" in API group "admission"`;
  let tries = 0;
  world.onWrite = (when, what) => {
    if (when !== "before" || !what.endsWith(" theirs")) return;
    tries++;
    throw forbidden(message);
  };
  world.addConfiguration("theirs");
  const run = world.start({ lifetimeMs: 600_000 });
  assert.equal((await run()).guard, "trust-spreading");
  world.advanceSeconds(5);
  assert.deepEqual([(await run()).guard, tries], ["done", 1]);
  for (const name of ["one", "two"]) {
    const bundles = world.bundles(name);
    assert.ok(bundles.every((bundle) => bundle.includes(world.stored().presented?.ca ?? "")));
  }
  world.advanceSeconds(31);
  assert.deepEqual([(await run()).guard, tries], ["done", 2], "the right may have been given");
  const label = "grafana.com/inject-rollout-operator-ca";
  const how = `Sluice has no right for that name: give it one, or remove the label ${label}`;
  assert.deepEqual(world.problems, [`${resource}/theirs was refused with 403: ${message}; ${how}`]);
  const events = world.store.list("events").items.map(({ reason }) => reason);
  assert.deepEqual(events.sort(), ["CertificateRotated", "ConfigurationNotOurs"]);
  world.store.delete(resource, { namespace: "", name: "theirs" });
  await run();
  world.addConfiguration("theirs");
  await run();
  assert.equal(world.problems.length, 2, "another one of that name is reported again");
});

for (const served of ["mimir", "loki"])
  test(`without the right to ours of the served namespace ${served} a renewal waits as long as it can: reviews would fail of it`, async () => {
    const world = new CertificateWorld();
    const generation = await generationOf(world.timeline.nowMs(), { ageMs: 31_000 });
    world.addSecret(dataOf("presented", generation));
    world.addConfiguration(`zpdb-validation-${served}`, { caBundle: generation.ca });
    world.onWrite = (when, what) => {
      if (when === "before" && what.endsWith(`-${served}`)) throw forbidden('User "x" cannot patch resource "y"');
    };
    const { guard } = await world.start({ namespaces: ["tempo", served] })();
    assert.equal(guard, "configuration-refused");
    assert.equal(world.stored().presented?.cert, generation.cert);
    assert.deepEqual(world.problems, []);
  });

test("with UPDATE_CA_BUNDLE=false Sluice writes no configuration, and a renewal waits for the client that writes them", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  const resource = "validatingwebhookconfigurations";
  // Other clients fill it, so it need not permit us to.
  world.store.delete(resource, { namespace: "", name: "two" });
  world.addConfiguration("two", { labels: { "grafana.com/namespace": "mimir" } });
  const run = world.start({ updatesBundles: false });
  assert.deepEqual([(await run()).guard, world.bundles("two")], ["bundle-awaited", [[], []]]);
  const { presented, next } = world.stored();
  for (const name of ["one", "two"]) {
    const { webhooks = [] } = world.store.get(resource, { namespace: "", name }) as WebhookConfigurationObject;
    const caBundle = Buffer.from(`${presented?.ca}${next?.ca}`).toString("base64");
    const filled = webhooks.map((webhook) => ({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } }));
    world.store.patch(resource, { namespace: "", name }, { webhooks: filled });
  }
  assert.equal((await run()).guard, "trust-spreading");
  world.advanceSeconds(5);
  assert.equal((await run()).guard, "done");
  assert.equal(world.stored().presented?.cert, next?.cert);
  assert.deepEqual(
    world.writes.filter((what) => what.startsWith(`patch ${resource}`)),
    [],
  );
});
