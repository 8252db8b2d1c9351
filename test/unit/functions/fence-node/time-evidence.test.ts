/** Time as evidence, by reconciles of a process that goes on: what it has to observe, and what begins the count anew. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fingerprintOf } from "../../../../functions/fence-node/fingerprint.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { agent, fencing, firstBoot, type NodeWorld, nodeWorld, pod } from "./node-world.ts";

const keyOf = (name: string) => name.repeat(43);
const listOf = (...names: readonly string[]) => names.map((name) => `${name}=${fingerprintOf(keyOf(name))}`).join(" ");
const sluice = (texts: Readonly<Record<string, string | null>>) =>
  Object.fromEntries(Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text]));

/** L 40 s and W 10 s make T 62 s. */
const neededMs = 62_000;
const everyMs = 3_000;

/** A node that has fallen, whose fence is armed for an agent with peers, and one process that reconciles it. */
class ArmedNode {
  readonly world: NodeWorld = nodeWorld();
  readonly peers = new Set(["b", "c", "d"]);
  #process: Partial<Context> = { memoryOf: createMemory() };
  #renewals = 10;

  get #store() {
    return this.world.harness.world.store;
  }

  async begin(list = listOf("b", "c", "d")): Promise<this> {
    this.write({
      "agent-mode": "armed",
      "agent-permit-seconds": "40",
      "agent-watchdog-seconds": "10",
      "agent-peers": list,
    });
    for (const name of this.peers) {
      const annotations = sluice({
        "agent-key": keyOf(name),
        "agent-contact-seconds": "3600",
        "agent-fresh-seconds": "17",
        "agent-renewals": "10",
      });
      this.#store.create("leases", fencing, { metadata: { name: `agent-${name}`, annotations } });
    }
    this.world.annotate({ "sluice.dev/unhealthy": "disk failed" });
    assert.equal(await this.reconcile(), "armed");
    this.world.falls();
    return this;
  }

  /** The agent of the node writes this, or another client does in its place. */
  write(texts: Readonly<Record<string, string | null>>): void {
    this.#store.patch("leases", agent, { metadata: { annotations: sluice(texts) } });
  }

  peerWrites(name: string, texts: Readonly<Record<string, string | null>>): void {
    const key = { namespace: fencing, name: `agent-${name}` };
    this.#store.patch("leases", key, { metadata: { annotations: sluice(texts) } });
  }

  reconcile(): Promise<string | undefined> {
    return this.world.reconcile(this.#process);
  }

  /** The process ends, and another one goes on. */
  restart(changes: Partial<Context> = {}): void {
    this.#process = { memoryOf: createMemory(), ...changes };
  }

  /** All peers that run renew, and the process observes, every three seconds. Resolves to the last guard. */
  async goOn(ms: number): Promise<string | undefined> {
    let guard: string | undefined;
    for (let passedMs = 0; passedMs < ms; passedMs += everyMs) {
      await this.world.harness.goOn(everyMs);
      this.#renewals++;
      for (const name of this.peers) this.peerWrites(name, { "agent-renewals": String(this.#renewals) });
      guard = await this.reconcile();
    }
    return guard;
  }

  get message(): string | undefined {
    return this.world.harness.verdicts.at(-1)?.message;
  }

  /** Its pods may start elsewhere. */
  get hasStopped(): boolean {
    const { "fence-phase": phase, "fence-evidence": evidence } = this.world.record() ?? {};
    return evidence === "time" && (phase === "evacuating" || phase === "fenced");
  }
}

test("armed: before T has passed a node that is not Ready keeps its pods, and the message says how long at least", async () => {
  const node = await new ArmedNode().begin();
  assert.equal(await node.goOn(neededMs - 2 * everyMs), "armed");
  assert.match(node.message ?? "", /time is evidence in \d+ s at the earliest/);
  assert.equal(node.world.texts()["fence-hold"], undefined, "nothing is to be done by a person");
});

test("after T with most of the peers in contact its pods may start elsewhere", async () => {
  const node = await new ArmedNode().begin();
  const { store } = node.world.harness.world;
  const { uid } = store.get("pods", pod).metadata;
  node.peers.delete("b");
  await node.goOn(neededMs + 2 * everyMs);
  assert.equal(node.hasStopped, true);
  assert.notEqual(store.find("pods", pod)?.metadata.uid, uid);
});

test("quorum: with fewer peers in contact the fence waits, and goes on once they have been in contact", async () => {
  const node = await new ArmedNode().begin();
  node.peers.delete("b");
  node.peers.delete("c");
  assert.equal(await node.goOn(10 * neededMs), "quorum");
  assert.match(node.message ?? "", /1 of its 3 peers .* and 2 must be/);
  assert.equal(node.world.texts()["fence-hold"], "quorum");
  assert.equal(node.hasStopped, false);
  node.peers.add("b");
  await node.goOn(3 * everyMs);
  assert.equal(node.hasStopped, true);
});

test("a peer that began its contact after the fence was armed does not count", async () => {
  const node = await new ArmedNode().begin();
  for (const name of ["b", "c"]) node.peerWrites(name, { "agent-contact-seconds": "61.9" });
  assert.equal(await node.goOn(2 * neededMs), "quorum");
});

test("a peer with another key, or without a Lease, does not count", async () => {
  const node = await new ArmedNode().begin();
  node.peerWrites("b", { "agent-key": keyOf("x") });
  node.peers.delete("c");
  node.world.harness.world.store.delete("leases", { namespace: fencing, name: "agent-c" }, {});
  assert.equal(await node.goOn(2 * neededMs), "quorum");
});

test("still-alive: a node that is Ready after T has not stopped, and keeps its pods", async () => {
  const node = await new ArmedNode().begin();
  node.world.boot(firstBoot, true);
  assert.equal(await node.goOn(neededMs - 2 * everyMs), "armed");
  assert.equal(await node.goOn(neededMs), "still-alive");
  assert.equal(node.hasStopped, false);
});

test("another process begins to count anew", async () => {
  const node = await new ArmedNode().begin();
  assert.equal(await node.goOn(neededMs - everyMs), "armed");
  node.restart();
  assert.equal(await node.goOn(neededMs - everyMs), "armed");
  await node.goOn(3 * everyMs);
  assert.equal(node.hasStopped, true);
});

test("time that the wall clock alone has shown does not count", async () => {
  const node = await new ArmedNode().begin();
  const { cluster } = node.world.harness;
  let skippedMs = 0;
  const slept = wrapCluster(cluster, {
    monotonicMs: () => cluster.monotonicMs() + skippedMs,
    skippedMs: () => skippedMs,
  });
  node.restart({ cluster: slept });
  await node.goOn(2 * everyMs);
  skippedMs = 3_600_000;
  assert.equal(await node.goOn(neededMs - 4 * everyMs), "armed");
});

test("a fence that another client disarms is armed again, and counted anew, also by a process that did not observe it", async () => {
  const node = await new ArmedNode().begin();
  await node.goOn(neededMs - everyMs);
  node.write({ "fence-armed": null });
  await node.world.reconcile({ memoryOf: createMemory() });
  assert.notEqual(node.world.armed(), undefined, "the other process arms it again");
  assert.equal(await node.goOn(neededMs - everyMs), "armed");
  await node.goOn(3 * everyMs);
  assert.equal(node.hasStopped, true);
});

test("what counts is the list that the agent had when the fence was armed, whatever it says later", async () => {
  const node = await new ArmedNode().begin();
  node.write({ "agent-peers": listOf("b"), "agent-permit-seconds": "1" });
  node.peers.delete("c");
  node.peers.delete("d");
  assert.equal(await node.goOn(2 * neededMs), "quorum");
});

test("a list that names the node itself, or no list, makes time no evidence", async () => {
  for (const list of [listOf("b", "c", "a-0"), "", "b"]) {
    const node = new ArmedNode();
    await assert.rejects(node.begin(list), { name: "AssertionError" }, "the guard is another one");
    node.world.falls();
    assert.equal(await node.goOn(2 * neededMs), "not-armed", list);
  }
});
