/** Review keys in complete runs: how they get into the Secret and from there into paths, and how they end. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { dataOf } from "../../../../functions/shared/certificates/secret.ts";
import { ClusterError, type SecretObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  CertificateWorld,
  generationOf,
  keyed,
  killAt,
  known,
  ours,
  runFor,
  settings,
} from "../../../support/certificate-world.ts";

const old = known.reviewKeys.current;
const resource = "validatingwebhookconfigurations";
const base64 = (bytes: number) => randomBytes(bytes).toString("base64");

function dataIn(world: CertificateWorld): Readonly<Record<string, string>> {
  return (world.store.get("secrets", settings.secret) as SecretObject).data ?? {};
}

/** A Secret as an older version leaves it, with a certificate that became valid `ageMs` ago. */
async function olderSecret(world: CertificateWorld, ageMs: number, more: object = {}): Promise<void> {
  const generation = await generationOf(world.timeline.nowMs(), { ageMs });
  world.addSecret({ ...dataOf("presented", generation), ...more });
  world.addConfiguration("one", { labels: keyed, caBundle: generation.ca });
}

const pathsUnder = (key: string | undefined) => [`/${key}/a`, `/${key}/b`];

test("Sluice stores the first key with the first certificate, and writes it into the paths after it has known it for 20 s", async () => {
  const world = new CertificateWorld();
  world.addConfiguration("ours", { labels: keyed });
  const run = world.start({ lifetimeMs: 600_000 });
  const { guard, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["key-spreading", 20_000]);
  assert.deepEqual(Object.keys(dataIn(world)), ["ca", "cert", "key", "review-key"]);
  world.assertTrusted();
  assert.deepEqual(world.paths("ours"), ["/a", "/b"]);
  world.advanceSeconds(19.9);
  assert.deepEqual([(await run()).guard, world.paths("ours")], ["key-spreading", ["/a", "/b"]]);
  world.advanceSeconds(0.1);
  assert.equal((await run()).guard, "done");
  const { current } = world.storedKeys();
  assert.match(current ?? "", /^[0-9a-f]{64}$/);
  assert.deepEqual(world.paths("ours"), pathsUnder(current));
  assert.deepEqual(world.acts, [
    "generate secrets/certificate done",
    `patch ${resource}/ours done`,
    `patch ${resource}/ours done`,
  ]);
  assert.deepEqual(world.store.list("events").items, [], "a wait of seconds is no Event");
});

test("no two generations have the same key", async () => {
  const [one, other] = [new CertificateWorld(), new CertificateWorld()];
  await Promise.all([one.start()(), other.start()()]);
  assert.notEqual(one.storedKeys().current, other.storedKeys().current);
});

for (const [what, data, because] of [
  ["without a key", {}, "there is no review-key"],
  ["with a key of 10 bytes", { "review-key": base64(10) }, "its review-key has 10 bytes, and not 32"],
  ["with a key of 1 MiB", { "review-key": base64(2 ** 20) }, "its review-key has 1048576 bytes, and not 32"],
] as const)
  test(`a Secret ${what} gets one beside its certificate, also if others write the bundles`, async () => {
    for (const updatesBundles of [true, false]) {
      const world = new CertificateWorld();
      await olderSecret(world, 0, { ...data, "previous-review-key": base64(32) });
      const { previous } = world.storedKeys();
      const { ca, cert, key } = dataIn(world);
      const { message } = await world.start({ mode: "shadow", updatesBundles })();
      assert.equal(message, `nothing is written in shadow mode: generate-key, for ${because}`);
      assert.deepEqual(world.writes, []);
      await world.start({ updatesBundles })();
      assert.deepEqual(world.acts, ["generate-key secrets/certificate done"]);
      const after = dataIn(world);
      assert.deepEqual([after.ca, after.cert, after.key], [ca, cert, key]);
      assert.ok(world.storedKeys().current !== undefined);
      assert.equal(world.storedKeys().previous, previous, "no valid key was replaced");
    }
  });

test("if others write the bundles Sluice writes no path, with the label and without it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  const run = world.start({ updatesBundles: false });
  await run();
  world.advanceSeconds(20);
  assert.equal((await run()).guard, "done");
  assert.deepEqual(world.writes, []);
});

test("a renewal creates the next key, and the promotion writes it into the paths at once", async () => {
  const world = new CertificateWorld();
  await world.addRunning(9_000, keyed);
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  world.advanceSeconds(21);
  assert.equal((await run()).guard, "trust-spreading");
  assert.deepEqual(world.paths("one"), pathsUnder(old), "in the same patch as the bundle");
  const { current, next } = world.storedKeys();
  assert.ok(current === old && next !== undefined && next !== old);
  assert.equal(world.acts.filter((act) => act.startsWith("generate")).length, 1, "in the write of the certificate");
  world.advanceSeconds(5);
  const { guard, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["key-spreading", 15_000], "it is known for 5 s");
  assert.deepEqual(world.storedKeys(), { current: next, next: undefined, previous: old });
  assert.ok(!("next-review-key" in dataIn(world)));
  assert.deepEqual(world.paths("one"), pathsUnder(old));
  world.advanceSeconds(15);
  assert.equal((await run()).guard, "done");
  assert.deepEqual(world.paths("one"), pathsUnder(next));
});

test("the run of the promotion writes a next key into the paths that was known for 20 s", async () => {
  const world = new CertificateWorld();
  await world.addRunning(31_000, keyed);
  let refuses = true;
  world.onWrite = (when, what) => {
    if (when === "before" && refuses && what.endsWith(" two")) throw refusal(403, "a policy says no");
  };
  const run = world.start({ lifetimeMs: 600_000 });
  assert.equal((await run()).guard, "configuration-refused");
  refuses = false;
  world.advanceSeconds(20);
  const { next } = world.storedKeys();
  await run();
  assert.deepEqual([world.storedKeys().current, world.paths("one")], [next, pathsUnder(next)]);
});

test("a promotion without a valid next key keeps the key, and removes the malformed one", async () => {
  for (const bad of [{}, { "next-review-key": base64(10) }, { "next-review-key": base64(2 ** 20) }]) {
    const world = new CertificateWorld();
    await world.addRunning(31_000);
    const next = await generationOf(world.timeline.nowMs());
    world.store.patch("secrets", settings.secret, { data: { ...dataOf("next", next), ...bad } });
    await runFor(world, 12, new Error());
    assert.equal(world.stored().presented?.cert, next.cert);
    assert.deepEqual(world.storedKeys(), { current: old, next: undefined, previous: undefined });
    assert.ok(!("next-review-key" in dataIn(world)));
  }
});

test("a new certificate in an emptied Secret brings another key, and the old one stays valid", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0);
  world.store.patch("secrets", settings.secret, { data: { ca: null, cert: null, key: null } });
  await world.start()();
  const { current, previous } = world.storedKeys();
  assert.ok(current !== undefined && current !== old && previous === old);
});

test("the next run replaces a plain path that a tool wrote back, and a foreign key", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  world.advanceSeconds(20);
  await run();
  assert.deepEqual(world.paths("one"), pathsUnder(old));
  for (const prefix of ["", `/${"e".repeat(64)}`]) {
    let entry = 0;
    world.rewrite("one", (client) => ({
      ...client,
      service: { namespace: "mimir", name: "rollout-operator", path: `${prefix}/${"ab"[entry++]}` },
    }));
    assert.equal((await run()).guard, "done");
    assert.deepEqual(world.paths("one"), pathsUnder(old));
    world.assertTrusted();
  }
});

test("a configuration without the label keeps its paths, whatever they are, and URLs and paths without a segment stay", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  world.addConfiguration("unlabelled", { labels: ours });
  world.addConfiguration("unasked", { labels: { ...ours, "sluice.dev/review-key": "yes" } });
  world.addConfiguration("others", { labels: keyed });
  const service = { namespace: "mimir", name: "rollout-operator" };
  const clients = [{ url: "https://localhost/a" }, { service: { ...service, path: "/" } }];
  world.rewrite("others", () => clients.shift() ?? {});
  world.rewrite("two", (client) => (client.service?.path === "/a" ? { ...client, service } : client));
  world.rewrite("unlabelled", (client) => ({ ...client, service: { ...service, path: `/${old}/x` } }));
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  world.advanceSeconds(20);
  assert.equal((await run()).guard, "done");
  assert.deepEqual(world.paths("one"), pathsUnder(old));
  assert.deepEqual(world.paths("two"), [undefined, `/${old}/b`]);
  assert.deepEqual(world.paths("others"), [undefined, "/"]);
  assert.deepEqual(world.paths("unlabelled"), [`/${old}/x`, `/${old}/x`], "it is left as it is");
  assert.deepEqual(world.paths("unasked"), ["/a", "/b"]);
  world.assertTrusted();
});

test("replicas that upgrade at the same moment agree on one key, and write it into the paths", async () => {
  const world = new CertificateWorld();
  await olderSecret(world, 0);
  const runs = [world.start(), world.start(), world.start()];
  for (let second = 0; second < 25; second++) {
    await Promise.all(runs.map((run) => run()));
    world.advanceSeconds(1);
  }
  const made = world.acts.filter((act) => act === "generate-key secrets/certificate done");
  assert.equal(made.length, 1);
  assert.deepEqual(world.paths("one"), pathsUnder(world.storedKeys().current));
});

test("a user who writes the Secret between our read and our write of a key keeps what he has written", async () => {
  const world = new CertificateWorld();
  await olderSecret(world, 0);
  const theirs = base64(32);
  let written = false;
  world.onWrite = (when, what) => {
    if (written || when !== "before" || what !== "patch secrets certificate") return;
    written = true;
    world.store.patch("secrets", settings.secret, { data: { "review-key": theirs } });
  };
  await world.start()();
  assert.deepEqual(world.acts, ["generate-key secrets/certificate changed"]);
  assert.equal(dataIn(world)["review-key"], theirs);
});

test("if a process is killed at any write, the next one brings its key into every path", async () => {
  const beginnings = {
    upgrade: (world: CertificateWorld) => olderSecret(world, 0),
    renewal: (world: CertificateWorld) => world.addRunning(31_000, keyed),
  };
  for (const [what, begin] of Object.entries(beginnings))
    for (const when of ["before", "after"] as const)
      for (let write = 1; ; write++) {
        const world = new CertificateWorld();
        await begin(world);
        const lifetimeMs = 600_000;
        const wasKilled = await runFor(world, 100, killAt(world, when, write), { lifetimeMs });
        const { current, next } = world.storedKeys();
        assert.equal(next, undefined);
        assert.deepEqual(world.paths("one"), pathsUnder(current), `${what}, killed ${when} write ${write}`);
        if (!wasKilled) {
          assert.ok(write > (what === "upgrade" ? 2 : 6), `${what} has ${write} writes`);
          break;
        }
      }
});

function refusal(code: number, message: string): ClusterError {
  return new ClusterError({ code, reason: "", message, verb: "patch", resource: "" });
}

test("Sluice reports a policy that refuses the key, which delays neither bundle nor certificate", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  world.advanceSeconds(31);
  let tries = 0;
  world.onPatch = (name, body) => {
    if (name !== "one" || !JSON.stringify(body).includes(old)) return;
    tries++;
    throw refusal(422, "a policy says no");
  };
  assert.equal((await run()).guard, "trust-spreading");
  assert.deepEqual([tries, world.paths("one"), world.bundles("one")[0]?.length], [1, ["/a", "/b"], 2]);
  assert.deepEqual(world.paths("two"), pathsUnder(old));
  world.advanceSeconds(5);
  assert.equal((await run()).guard, "key-spreading");
  assert.equal(world.storedKeys().previous, old, "the certificate is promoted");
  world.onPatch = (name) => {
    if (name === "one") throw refusal(422, "a policy says no");
  };
  world.advanceSeconds(25);
  const { guard, message, requeueAfterMs } = await run();
  assert.deepEqual([guard, requeueAfterMs], ["configuration-refused", 30_000]);
  assert.equal(message, `not every path has the review key: ${resource}/one was refused with 422: a policy says no`);
  world.onPatch = () => {};
  world.advanceSeconds(29.9);
  assert.equal((await run()).guard, "configuration-refused");
  world.advanceSeconds(0.1);
  assert.equal((await run()).guard, "done");
  assert.deepEqual(world.paths("one"), pathsUnder(world.storedKeys().current));
});

test("Sluice must know a key that the Secret loses and gets back for 20 s again, because a replica may have missed it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  const back = dataIn(world);
  world.advanceSeconds(15);
  world.store.patch("secrets", settings.secret, { data: { "review-key": base64(32) } });
  assert.equal((await run()).guard, "key-spreading");
  world.store.patch("secrets", settings.secret, { data: back });
  world.advanceSeconds(10);
  assert.deepEqual([(await run()).guard, world.paths("one")], ["key-spreading", ["/a", "/b"]]);
});

test("Sluice tries a configuration that it has no right to once, with the key, and not a second time without it", async () => {
  const world = new CertificateWorld();
  await world.addRunning(0, keyed);
  const run = world.start({ lifetimeMs: 600_000 });
  await run();
  world.advanceSeconds(20);
  world.addConfiguration("theirs", { labels: keyed });
  let tries = 0;
  world.onPatch = (name) => {
    if (name !== "theirs") return;
    tries++;
    const message = `${resource} "theirs" is forbidden: User "x" cannot patch resource "${resource}" in API group "admission"`;
    throw new ClusterError({ code: 403, reason: "Forbidden", message, verb: "patch", resource });
  };
  assert.deepEqual([(await run()).guard, tries], ["done", 1]);
  assert.deepEqual(world.paths("one"), pathsUnder(old));
});
