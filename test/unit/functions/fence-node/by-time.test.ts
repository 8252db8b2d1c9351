/** Time as evidence in whole reconciles: what one process reads of the agent and its peers, and what it remembers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fingerprintOf } from "../../../../functions/fence-node/fingerprint.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { agent, armedWorld, fencing, type NodeWorld, node, nodeWorld } from "./node-world.ts";

const names = ["b-0", "c-0", "d-0"] as const;
const keyOf = (name: string) => Buffer.alloc(32, name).toString("base64url");
const leaseOf = (name: string) => ({ namespace: fencing, name: `agent-${name}` });
/** L 40 s and W 10 s make T 62 s. */
const durationMs = 62_000;
const stepMs = 3_000;

interface PeerWorld {
  readonly world: NodeWorld;
  /** The peers that renew their Leases in each step; the others are silent. */
  readonly renewing: Set<string>;
  /** Another process begins, with an empty memory. */
  restart(): void;
  /** Only the wall clock shows these milliseconds, from now on. */
  skip(ms: number): void;
  /** One reconcile, by the same process as the last one. Resolves to its guard. */
  reconcile(): Promise<string | undefined>;
  /** Lets so much time pass, in steps, each with renewals and a reconcile. Resolves to the last guard. */
  goOn(ms: number): Promise<string | undefined>;
  setPeer(name: string, texts: Readonly<Record<string, string | null>>): void;
}

/**
 * A node that is silent, with three peers, for whose agent the fence has just been armed.
 *
 * @param own what its agent's Lease has besides, or in the place of what it should have
 */
async function peerWorld(own: Readonly<Record<string, string>> = {}): Promise<PeerWorld> {
  const world = nodeWorld();
  const { store } = world.harness.world;
  const peers = names.map((name) => `${name}=${fingerprintOf(keyOf(name))}`).join(" ");
  const texts = {
    "sluice.dev/agent-mode": "armed",
    "sluice.dev/agent-permit-seconds": "40",
    "sluice.dev/agent-watchdog-seconds": "10",
    "sluice.dev/agent-peers": peers,
    ...own,
  };
  store.patch("leases", agent, { metadata: { annotations: texts } });
  let renewals = 10;
  const setPeer: PeerWorld["setPeer"] = (name, texts) =>
    void store.patch("leases", leaseOf(name), { metadata: { annotations: texts } });
  for (const name of names) {
    store.create("leases", fencing, { metadata: { name: leaseOf(name).name } });
    setPeer(name, {
      "sluice.dev/agent-key": keyOf(name),
      "sluice.dev/agent-contact-seconds": "3600",
      "sluice.dev/agent-fresh-seconds": "17",
      "sluice.dev/agent-renewals": "10",
    });
  }
  const renewing = new Set<string>(names);
  let skippedMs = 0;
  let memoryOf = createMemory();
  const { cluster } = world.harness;
  const clocked: Context["cluster"] = {
    ...cluster,
    monotonicMs: () => cluster.monotonicMs() + skippedMs,
    skippedMs: () => skippedMs,
  };
  const reconcile = () => world.reconcile({ memoryOf, cluster: { ...clocked } });
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  world.falls();
  await reconcile();
  return {
    world,
    renewing,
    restart() {
      memoryOf = createMemory();
    },
    skip(ms) {
      skippedMs += ms;
    },
    reconcile,
    async goOn(ms) {
      let guard: string | undefined;
      for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
        await world.harness.goOn(stepMs);
        renewals++;
        for (const name of renewing) setPeer(name, { "sluice.dev/agent-renewals": String(renewals) });
        guard = await reconcile();
      }
      return guard;
    },
    setPeer,
  };
}

const evidenceOf = ({ world }: PeerWorld) => world.record()?.["fence-evidence"];

test("after T with peers in contact the node has stopped by time, and gets out-of-service", async () => {
  const peers = await peerWorld();
  assert.equal(await peers.goOn(durationMs - 2 * stepMs), "armed");
  assert.equal(peers.world.record()?.["fence-hold"], undefined, "nothing holds it");
  assert.equal(evidenceOf(peers), undefined);
  await peers.goOn(3 * stepMs);
  assert.equal(evidenceOf(peers), "time");
  const { acts } = peers.world.harness;
  assert.ok(acts.some(({ action, result }) => action === "set-out-of-service" && result === "done"));
});

test("a process that begins anew counts T from its own first observation on", async () => {
  const peers = await peerWorld();
  await peers.goOn(durationMs - 2 * stepMs);
  peers.restart();
  assert.equal(await peers.goOn(durationMs - 2 * stepMs), "armed");
  await peers.goOn(5 * stepMs);
  assert.equal(evidenceOf(peers), "time");
});

const silences: readonly [promise: string, change: (peers: PeerWorld) => void][] = [
  [
    "peers of which one is silent and one has another key",
    (peers) => {
      peers.renewing.delete("b-0");
      peers.setPeer("c-0", { "sluice.dev/agent-key": keyOf("another") });
    },
  ],
  ["peers that are silent", ({ renewing }) => renewing.clear()],
  [
    "peers without a Lease",
    ({ world, renewing }) => {
      renewing.clear();
      for (const name of names) world.harness.world.store.delete("leases", leaseOf(name), {});
    },
  ],
  [
    "peers whose contact is shorter than T",
    (peers) => {
      for (const name of names) peers.setPeer(name, { "sluice.dev/agent-contact-seconds": "61.9" });
    },
  ],
  [
    "peers whose Leases hold rubbish",
    (peers) => {
      peers.setPeer("b-0", { "sluice.dev/agent-contact-seconds": "1e9" });
      peers.setPeer("c-0", { "sluice.dev/agent-fresh-seconds": "-17" });
      peers.setPeer("d-0", { "sluice.dev/agent-key": "x".repeat(100_000) });
    },
  ],
];

for (const [promise, change] of silences) {
  test(`quorum: ${promise} are no evidence, and the record says so`, async () => {
    const peers = await peerWorld();
    change(peers);
    assert.equal(await peers.goOn(3 * durationMs), "quorum");
    assert.equal(peers.world.record()?.["fence-hold"], "quorum");
    assert.deepEqual(peers.world.taints(), ["sluice.dev/fence"]);
  });
}

const print = fingerprintOf(keyOf("another"));
/** What an agent's Lease may hold after a mistake of a person, and why the fence then waits for other evidence. */
const badLeases: readonly [what: string, own: Readonly<Record<string, string>>, guard: string][] = [
  ["a negative time of its watchdog", { "agent-watchdog-seconds": "-10" }, "not-armed"],
  ["a time of its watchdog that is huge", { "agent-watchdog-seconds": "999999999" }, "not-armed"],
  ["the time 0 of its watchdog", { "agent-watchdog-seconds": "0" }, "not-armed"],
  ["a watchdog of a day, the longest that counts", { "agent-watchdog-seconds": "86400" }, "armed"],
  ["a permit that is no number", { "agent-permit-seconds": "Infinity" }, "not-armed"],
  ["rubbish in the place of its mode", { "agent-mode": "x".repeat(200_000) }, "not-armed"],
  ["rubbish in the place of its peers", { "agent-peers": "x".repeat(200_000) }, "not-armed"],
  ["peers that do not exist", { "agent-peers": `y-0=${print} z-0=${print}` }, "quorum"],
  ["itself as its one peer", { "agent-peers": `${node.name}=${print}` }, "not-armed"],
];

for (const [what, own, guard] of badLeases) {
  test(`${guard}: a Lease with ${what} brings no evidence by time`, async () => {
    const texts = Object.entries(own).map(([key, text]) => [`sluice.dev/${key}`, text]);
    const peers = await peerWorld(Object.fromEntries(texts));
    assert.equal(await peers.goOn(3 * durationMs), guard);
    assert.equal(evidenceOf(peers), undefined);
    assert.deepEqual(peers.world.taints(), ["sluice.dev/fence"]);
  });
}

test("quorum: one renewal since the last observation is not enough, and the second one is", async () => {
  const peers = await peerWorld();
  peers.renewing.clear();
  assert.equal(await peers.goOn(2 * durationMs), "quorum");
  for (const count of ["11", "12"]) {
    assert.equal(evidenceOf(peers), undefined);
    for (const name of names) peers.setPeer(name, { "sluice.dev/agent-renewals": count });
    await peers.reconcile();
  }
  assert.equal(evidenceOf(peers), "time");
});

test("many observations at once do not displace those that show two renewals", async () => {
  const peers = await peerWorld();
  peers.renewing.clear();
  await peers.goOn(2 * durationMs);
  for (let count = 0; count < 100; count++) await peers.reconcile();
  for (const name of names) peers.setPeer(name, { "sluice.dev/agent-renewals": "12" });
  await peers.reconcile();
  assert.equal(evidenceOf(peers), "time");
});

test("still-alive: a node whose kubelet reports gets no evidence by time", async () => {
  const peers = await peerWorld();
  peers.world.boot("boot-1");
  assert.equal(await peers.goOn(2 * durationMs), "still-alive");
  assert.deepEqual(peers.world.taints(), ["sluice.dev/fence"]);
});

test("still-alive: a kubelet that reports that its node is not ready is alive as well, until it falls silent", async () => {
  const peers = await peerWorld();
  peers.world.reportsNotReady();
  assert.equal(await peers.goOn(2 * durationMs), "still-alive");
  assert.deepEqual([evidenceOf(peers), peers.world.taints()], [undefined, ["sluice.dev/fence"]]);
  peers.world.falls();
  await peers.goOn(2 * stepMs);
  assert.equal(evidenceOf(peers), "time");
});

test("a node that is Ready five minutes after T gets no evidence by time once it is cut off, nor after it is armed again", async () => {
  const peers = await peerWorld();
  const { store } = peers.world.harness.world;
  peers.world.boot("boot-1");
  assert.equal(await peers.goOn(durationMs + 300_000 - 2 * stepMs), "still-alive");
  assert.equal(await peers.goOn(5 * stepMs), "not-armed");
  assert.match(peers.world.harness.events.join(), /watchdog of a-0 did not reset it/);
  peers.world.falls();
  assert.equal(await peers.goOn(2 * durationMs), "not-armed");
  store.patch("leases", agent, { metadata: { annotations: { "sluice.dev/fence-armed": null } } });
  assert.equal(await peers.goOn(2 * durationMs), "not-armed");
  assert.ok(peers.world.armed());
  peers.restart();
  assert.equal(await peers.goOn(2 * durationMs), "not-armed");
});

test("a node that stopped in time and is Ready for a while all the same gets its evidence", async () => {
  const peers = await peerWorld();
  peers.world.boot("boot-1");
  assert.equal(await peers.goOn(durationMs + 200_000), "still-alive");
  peers.world.falls();
  await peers.goOn(2 * stepMs);
  assert.equal(evidenceOf(peers), "time");
});

test("a fence that another client has disarmed is armed again, and T begins anew", async () => {
  const peers = await peerWorld();
  await peers.goOn(durationMs - 2 * stepMs);
  const { store } = peers.world.harness.world;
  store.patch("leases", agent, { metadata: { annotations: { "sluice.dev/fence-armed": null } } });
  assert.equal(await peers.reconcile(), "armed");
  assert.ok(peers.world.armed());
  assert.equal(await peers.goOn(durationMs - 2 * stepMs), "armed");
  await peers.goOn(4 * stepMs);
  assert.equal(evidenceOf(peers), "time");
});

test("a fence that another process has disarmed and armed again unseen begins T anew", async () => {
  const peers = await peerWorld();
  await peers.goOn(durationMs - 2 * stepMs);
  const { store } = peers.world.harness.world;
  store.patch("leases", agent, { metadata: { annotations: { "sluice.dev/fence-armed": null } } });
  await peers.world.reconcile();
  assert.equal(await peers.goOn(durationMs - 2 * stepMs), "armed");
  assert.equal(evidenceOf(peers), undefined);
});

test("time that only the wall clock shows does not count for T", async () => {
  const peers = await peerWorld();
  await peers.goOn(stepMs);
  peers.skip(3_600_000);
  assert.equal(await peers.goOn(durationMs - 3 * stepMs), "armed");
  await peers.goOn(4 * stepMs);
  assert.equal(evidenceOf(peers), "time");
});

test("renewals from before a sleep of the machine show no contact after it", async () => {
  const peers = await peerWorld();
  peers.renewing.clear();
  await peers.goOn(2 * durationMs);
  for (const name of names) peers.setPeer(name, { "sluice.dev/agent-renewals": "20" });
  peers.skip(3_600_000);
  assert.equal(await peers.reconcile(), "quorum");
  assert.equal(evidenceOf(peers), undefined);
});

test("an agent that is explicit-only has no evidence by time, and its peers are not read", async () => {
  const world = await armedWorld();
  world.falls();
  await world.harness.goOn(3_600_000);
  assert.equal(await world.reconcile(), "not-armed");
  assert.equal(world.harness.context.memoryOf(node).knownArmed, undefined);
});

test("armed: before T has passed the message says for how long at least, and nothing waits for a person", async () => {
  const peers = await peerWorld();
  assert.equal(await peers.goOn(20_000), "armed");
  assert.match(peers.world.harness.verdicts.at(-1)?.message ?? "", /time is evidence in \d+ s at the earliest/);
  assert.equal(peers.world.texts()["fence-hold"], undefined);
});

test("quorum: the message says how many peers are in contact and how many must be, and the fence goes on with them", async () => {
  const peers = await peerWorld();
  peers.renewing.delete("b-0");
  peers.renewing.delete("c-0");
  assert.equal(await peers.goOn(200_000), "quorum");
  assert.match(peers.world.harness.verdicts.at(-1)?.message ?? "", /1 of its 3 peers .* and 2 must be/);
  peers.renewing.add("b-0");
  await peers.goOn(15_000);
  assert.equal(evidenceOf(peers), "time");
});

test("what counts is the list that the agent had when the fence was armed, whatever it writes later", async () => {
  const peers = await peerWorld();
  const { store } = peers.world.harness.world;
  const annotations = { "sluice.dev/agent-peers": "", "sluice.dev/agent-permit-seconds": "1" };
  store.patch("leases", agent, { metadata: { annotations } });
  peers.renewing.delete("c-0");
  peers.renewing.delete("d-0");
  assert.equal(await peers.goOn(200_000), "quorum");
});
