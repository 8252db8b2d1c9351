import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { dataOf, type Generation } from "../../../../functions/shared/certificates/secret.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { CertificateWorld, generationOf, killAt, runFor, settings } from "../../../support/certificate-world.ts";

function refusal(code: number, message: string): ClusterError {
  return new ClusterError({ code, reason: "", message, verb: "patch", resource: "" });
}

test("without a Secret Sluice makes a certificate, stores it as rollout-operator does, and our configurations trust it", async () => {
  const world = new CertificateWorld();
  world.addConfiguration("ours");
  world.addConfiguration("elsewhere", {
    labels: { "grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": "loki" },
  });
  world.addConfiguration("unasked", {
    labels: { "grafana.com/inject-rollout-operator-ca": "yes", "grafana.com/namespace": "mimir" },
  });
  const { guard } = await world.start()();
  assert.equal(guard, "done");
  const secret = world.store.get("secrets", settings.secret) as unknown as { type: string; data: object };
  assert.deepEqual([secret.type, Object.keys(secret.data)], ["Opaque", ["ca", "cert", "key", "review-key"]]);
  const { presented } = world.stored();
  assert.ok(presented !== undefined);
  const nowMs = world.timeline.nowMs();
  assert.deepEqual(
    [presented.dnsNames, presented.notBeforeMs, presented.notAfterMs],
    [[settings.dnsName], nowMs - 30_000, nowMs + 60_000],
    "valid before now, for those whose clocks are late",
  );
  assert.deepEqual(world.bundles("ours"), [[presented.ca], [presented.ca]]);
  assert.deepEqual([...world.bundles("elsewhere"), ...world.bundles("unasked")], [[], [], [], []]);
  const { webhooks } = world.store.get("validatingwebhookconfigurations", {
    namespace: "",
    name: "ours",
  }) as unknown as {
    webhooks: { name: string; clientConfig: { service: object }; rules: object[] }[];
  };
  const service = { namespace: "mimir", name: "rollout-operator", path: "/b" };
  assert.deepEqual(webhooks[1]?.clientConfig.service, service);
  assert.equal(webhooks[0]?.rules.length, 1, "what is not the bundle stays");
});

test("Sluice stores a renewal, has it trusted, reads that back, waits, and only then presents it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  const before = world.stored().presented;
  const run = world.start();
  const waiting = await run();
  assert.deepEqual([waiting.guard, waiting.requeueAfterMs], ["trust-spreading", 5_000]);
  assert.equal(world.stored().presented?.cert, before?.cert);
  const next = world.stored().next;
  assert.deepEqual(world.bundles("one"), [
    [before?.ca, next?.ca],
    [before?.ca, next?.ca],
  ]);
  world.advanceSeconds(4.9);
  assert.equal((await run()).guard, "trust-spreading");
  world.advanceSeconds(0.1);
  const { guard } = await run();
  const after = world.stored();
  assert.deepEqual([guard, after.presented?.cert, after.next], ["done", next?.cert, undefined]);
  assert.deepEqual(after.previous, [{ ca: before?.ca, notAfterMs: before?.notAfterMs }]);
  assert.deepEqual(world.acts, [
    "generate secrets/certificate done",
    "patch validatingwebhookconfigurations/one done",
    "patch validatingwebhookconfigurations/two done",
    "promote secrets/certificate done",
  ]);
  const reasons = world.store.list("events").items.map(({ reason }) => reason);
  assert.deepEqual(reasons, ["CertificateRotated"]);
});

test("the five seconds begin again if a user adds or changes a configuration in between", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  const run = world.start();
  await run();
  world.advanceSeconds(4);
  world.addConfiguration("late");
  const { guard, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["trust-spreading", 5_000]);
});

test("if a process is killed at any write, the next one finishes its work, and neither presents an untrusted certificate", async () => {
  let kills = 0;
  for (const when of ["before", "after"] as const) {
    for (let write = 1; ; write++) {
      const world = new CertificateWorld();
      await world.addRunning(31_000);
      const next = await generationOf(world.timeline.nowMs());
      world.store.patch("secrets", settings.secret, { data: dataOf("next", next) });
      const wasKilled = await runFor(world, 12, killAt(world, when, write));
      world.assertTrusted();
      assert.equal(world.stored().presented?.cert, next.cert, `killed ${when} write ${write}`);
      assert.equal(world.stored().next, undefined);
      if (!wasKilled) break;
      kills++;
    }
  }
  assert.equal(kills, 6, "two configurations and the Secret, before and after");
});

test("a process that is killed when it stores the next certificate leaves none, or one that another process uses", async () => {
  for (const when of ["before", "after"] as const) {
    const world = new CertificateWorld();
    await world.addRunning(31_000);
    const before = world.stored().presented?.cert;
    assert.ok(await runFor(world, 12, killAt(world, when, 1)));
    assert.equal(world.acts.filter((act) => act.startsWith("generate")).length, when === "before" ? 1 : 0);
    assert.notEqual(world.stored().presented?.cert, before);
  }
});

test("three replicas at once agree on one certificate, and present none that the configurations do not trust", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  world.onWrite = () => world.assertTrusted();
  const runs = [world.start(), world.start(), world.start()];
  for (let second = 0; second < 8; second++) {
    await Promise.all(runs.map((run) => run()));
    world.advanceSeconds(1);
  }
  const promotions = world.acts.filter((act) => act === "promote secrets/certificate done");
  assert.deepEqual([promotions.length, world.acts.filter((act) => /^generate .+ done/.test(act)).length], [1, 1]);
  const settled = await Promise.all(runs.map((run) => run()));
  assert.deepEqual(
    settled.map(({ guard }) => guard),
    ["done", "done", "done"],
  );
});

test("replicas that start together create one Secret", async () => {
  const world = new CertificateWorld();
  world.addConfiguration("one");
  const settled = await Promise.all([world.start()(), world.start()()]);
  assert.deepEqual(
    settled.map(({ guard }) => guard),
    ["done", "done"],
  );
  assert.equal(world.acts.filter((act) => act === "generate secrets/certificate done").length, 1);
  world.assertTrusted();
});

test("no two certificates have the same keys", async () => {
  const world = new CertificateWorld();
  const run = world.start();
  await run();
  const first = world.stored().presented;
  world.advanceSeconds(31);
  await run();
  const { next } = world.stored();
  assert.ok(first !== undefined && next !== undefined);
  const keysOf = ({ ca, cert }: Generation) => [ca, cert].map((pem) => new X509Certificate(pem).publicKey);
  for (const one of keysOf(first)) for (const other of keysOf(next)) assert.ok(!one.equals(other));
});

test("Sluice does not undo what others change between its two reads: an authority is in the Secret before it is in a bundle", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0);
  // For one process nothing is due yet, while the other wants another name.
  const [run, other] = [world.start(), world.start({ dnsName: "sluice.ops.svc" })];
  let reads = 0;
  world.onRead = async (what) => {
    // Between the lists and the Secret, in either order of the reads.
    if (what === "list mutatingwebhookconfigurations" || ++reads !== 2) return;
    world.onRead = () => {};
    assert.equal((await other()).guard, "trust-spreading");
  };
  assert.equal((await run()).guard, "trust-spreading");
  assert.equal(
    world.acts.filter((act) => /^patch .+ done$/.test(act)).length,
    2,
    "by the other process, and by this one not at all",
  );
});

test("a user who changes a configuration while Sluice writes it keeps what he has written", async () => {
  const world = new CertificateWorld();
  world.addConfiguration("one");
  const key = { namespace: "", name: "one" };
  let edited = false;
  world.onWrite = (when, what) => {
    if (when !== "before" || !what.endsWith(" one") || edited) return;
    edited = true;
    world.store.patch("validatingwebhookconfigurations", key, { metadata: { labels: { team: "sre" } }, webhooks: [] });
  };
  assert.equal((await world.start()()).guard, "done");
  assert.deepEqual(world.bundles("one"), [], "the webhooks that he has taken away do not come back");
});

test("without the right to list configurations Sluice still makes a certificate, and names the right", async () => {
  const world = new CertificateWorld();
  const message = 'User "x" cannot list resource "validatingwebhookconfigurations"';
  world.onRead = (what) => {
    if (what === "list validatingwebhookconfigurations") throw refusal(403, message);
  };
  const { guard, message: expected } = await world.start()();
  assert.equal(guard, "configuration-refused");
  assert.equal(expected, `our certificate is not trusted everywhere: ${message}`);
  assert.ok(world.stored().presented !== undefined);
});

test("Sluice reports a configuration that the API server refuses, tries it again, and writes the others", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  let refusing = true;
  world.onWrite = (when, what) => {
    if (when === "before" && refusing && what.endsWith(" one")) throw refusal(403, "a policy says no");
  };
  const run = world.start({ lifetimeMs: 600_000 });
  const { guard, message, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["configuration-refused", 19_000]);
  assert.match(message, /validatingwebhookconfigurations\/one was refused with 403: a policy says no$/);
  assert.equal(world.bundles("two")[0]?.length, 2);
  await run();
  const events = world.store.list("events").items.map(({ reason, message }) => `${reason} ${message}`);
  assert.deepEqual(events, [`CertificateWaiting ${message}`], "once");
  refusing = false;
  world.advanceSeconds(20);
  const before = world.stored().presented?.cert;
  assert.equal((await run()).guard, "configuration-refused");
  assert.notEqual(world.stored().presented?.cert, before, "the old one is about to expire");
  world.advanceSeconds(11);
  assert.equal((await run()).guard, "done");
  world.assertTrusted();
});

test("an API server's error for one configuration does not affect the others, and the run fails with it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  world.onWrite = (when, what) => {
    if (when === "before" && what.endsWith(" one")) throw refusal(503, "busy");
  };
  await assert.rejects(world.start()(), /busy/);
  assert.equal(world.bundles("two")[0]?.length, 2);
});

test("Sluice leaves an unreadable Secret as it is, with an Event that says what to do", async () => {
  const world = new CertificateWorld();
  const generation = await generationOf(world.timeline.nowMs());
  world.addSecret({ ...dataOf("presented", generation), cert: Buffer.from("broken").toString("base64") });
  const { guard, message } = await world.start()();
  assert.equal(guard, "secret-unreadable");
  assert.match(
    message,
    /its data key cert holds no certificate in PEM; empty it, and it is filled again: kubectl -n mimir /,
  );
  const [event] = world.store.list("events").items;
  assert.deepEqual([event?.reason, event?.message], ["CertificateWaiting", message]);
  assert.deepEqual(world.writes, ["create events"]);
});

test("shadow mode says what it would do, and writes nothing", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000);
  const { guard, message } = await world.start({ mode: "shadow" })();
  assert.equal(guard, "shadow-mode");
  assert.match(message, /generate, for two thirds of its lifetime are over/);
  assert.deepEqual(world.writes, []);
});

test("if a client undoes every write, Sluice pauses between its writes", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0);
  const overwrite = () => {
    const { webhooks } = world.store.get("validatingwebhookconfigurations", {
      namespace: "",
      name: "one",
    }) as unknown as {
      webhooks: { clientConfig: object }[];
    };
    const emptied = webhooks.map((webhook) => ({
      ...webhook,
      clientConfig: { ...webhook.clientConfig, caBundle: "" },
    }));
    world.store.patch("validatingwebhookconfigurations", { namespace: "", name: "one" }, { webhooks: emptied });
  };
  overwrite();
  world.onWrite = (when) => when === "after" && overwrite();
  const { guard, requeueAfterMs } = await world.start()();
  assert.deepEqual([guard, requeueAfterMs], ["contended", 1_000]);
});

test("a configuration that leads to another Service, as rollout-operator's release may have it, keeps its bundle", async () => {
  const world = new CertificateWorld();
  world.addConfiguration("ours");
  world.addConfiguration("operators", { caBundle: "theirs" });
  const path = (name: string) => (client: object) => ({ ...client, service: { namespace: "mimir", name, path: "/a" } });
  world.rewrite("operators", path("prod-rollout-operator"));
  const bundlesOf = () => world.store.get("validatingwebhookconfigurations", { namespace: "", name: "operators" });
  const before = JSON.stringify(bundlesOf());
  const { guard, message } = await world.start()();
  assert.equal(guard, "done");
  assert.match(message, /, except for validatingwebhookconfigurations\/operators: .*rollout-operator\.mimir\.svc/);
  assert.equal(JSON.stringify(bundlesOf()), before);
  assert.equal(world.bundles("ours").flat().length, 2);
  world.rewrite("operators", path("rollout-operator"));
  await world.start()();
  assert.deepEqual(world.bundles("operators"), world.bundles("ours"));
});
