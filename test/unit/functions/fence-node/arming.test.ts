/** Arming beside an agent that renews its Lease all the while, or changes what arming rests on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mayStillArm } from "../../../../functions/fence-node/decide-stopping.ts";
import type { AgentSeen, NodeSeen, RecordSeen } from "../../../../functions/fence-node/snapshot.ts";
import { agent as agentSeen, armed, armedAgent, claimed, decided, marked, noted, tainted } from "./fence-snapshots.ts";
import { agent, fenceIdOf, firstBoot, type NodeWorld, nodeWorld, record, slots } from "./node-world.ts";

type Texts = Readonly<Record<string, string | null>>;

const annotateLease = (world: NodeWorld, lease: typeof agent, annotations: Texts) =>
  void world.harness.world.store.patch("leases", lease, { metadata: { annotations } });

/** A fence begins. Before each of the first writes that arm it, so many as there are, a change is made. */
async function armingBeside(...changes: readonly ((world: NodeWorld) => void)[]) {
  const world = nodeWorld();
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  let sent = 0;
  world.harness.interfere = ({ verb, given: [resource, , body] }) => {
    const { metadata } = (body ?? {}) as { metadata?: { annotations?: Texts } };
    const armsIt = verb === "patch" && resource === "leases" && metadata?.annotations?.["sluice.dev/fence-armed"];
    if (armsIt) changes[sent++]?.(world);
  };
  await world.reconcile();
  const acts = world.harness.acts.map(({ action, result }) => `${action} ${result}`);
  return { world, sent, arming: acts.filter((act) => /^(note-agent|arm) /.test(act)) };
}

let renewals = 0;
const renews = (world: NodeWorld) => annotateLease(world, agent, { "sluice.dev/agent-renewals": String(++renewals) });

test("a fence is armed although its agent renews the Lease before each of four writes: the fifth rests on what was read again", async () => {
  const { world, sent, arming } = await armingBeside(renews, renews, renews, renews);
  assert.deepEqual([sent, arming], [5, ["note-agent done", "arm done"]]);
  assert.equal(world.armed(), `${fenceIdOf(world)} ${firstBoot}`);
});

test("after five writes that lose, the fence is decided on anew", async () => {
  const { sent, arming } = await armingBeside(renews, renews, renews, renews, renews);
  assert.deepEqual([sent, arming], [7, ["note-agent done", "arm changed", "arm done"]]);
});

test("a record that says what an agent still says is enough, although each observation finds a newer version of its Lease", async () => {
  const world = nodeWorld();
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  // Each observation reads the slots, after the agent's Lease.
  world.harness.interfere = ({ verb, given: [, key] }) => {
    if (verb === "get" && (key as { readonly name: string }).name === slots.name) renews(world);
  };
  await world.reconcile();
  const acts = world.harness.acts.map(({ action, result }) => `${action} ${result}`);
  assert.deepEqual(acts.slice(0, 6), [
    ...["claim done", "take-slot done", "taint done", "note-agent done", "arm done", "enter done"],
  ]);
  assert.equal(world.armed(), `${fenceIdOf(world)} ${firstBoot}`);
});

test("the write that arms a fence rests first on the version that is noted", () => {
  const { step: arming } = decided({ record: claimedNow, node: tainted, agent: renewed.agent });
  assert.ok(arming?.kind === "arm");
  assert.equal(arming.agent.resourceVersion, noted.resourceVersion);
});

test("a fence is noted anew before it is armed where the agent changes its mode meanwhile", async () => {
  const { world, sent, arming } = await armingBeside((changed) =>
    annotateLease(changed, agent, { "sluice.dev/agent-mode": "disarmed" }),
  );
  assert.deepEqual([sent, arming], [2, ["note-agent done", "arm changed", "note-agent done", "arm done"]]);
  assert.equal(world.armed(), `${fenceIdOf(world)} ${firstBoot}`);
});

test("a fence is decided on anew where another process writes the record meanwhile", async () => {
  const { world, sent, arming } = await armingBeside((changed) => {
    renews(changed);
    annotateLease(changed, record, { "sluice.dev/fence-hold": "ledger" });
  });
  assert.deepEqual([sent, arming], [3, ["note-agent done", "arm changed", "arm done"]]);
  assert.equal(world.armed(), `${fenceIdOf(world)} ${firstBoot}`);
});

test("nothing is armed where another version writes the record meanwhile", async () => {
  const { world, sent, arming } = await armingBeside((changed) => {
    renews(changed);
    annotateLease(changed, record, { "sluice.dev/format": "2" });
  });
  assert.deepEqual([sent, arming, world.armed()], [1, ["note-agent done", "arm changed"], undefined]);
  assert.equal(world.harness.guard, "record-unreadable");
});

test("the taint is put back before the fence is armed where it is removed meanwhile", async () => {
  let taintsWhenArmed: readonly string[] = [];
  const { world, arming } = await armingBeside(
    (changed) => {
      renews(changed);
      changed.setTaints([]);
    },
    (changed) => {
      taintsWhenArmed = changed.taints();
    },
  );
  assert.deepEqual(arming, ["note-agent done", "arm changed", "arm done"]);
  assert.deepEqual([world.taints(), taintsWhenArmed], [["sluice.dev/fence"], ["sluice.dev/fence"]]);
});

test("nothing is armed where the record, the Node or the agent's Lease goes meanwhile", async () => {
  const gone: readonly ((world: NodeWorld) => void)[] = [
    ({ harness }) => void harness.world.store.delete("leases", agent, {}),
    (world) => {
      renews(world);
      world.annotate({ "sluice.dev/unhealthy": null });
      world.harness.world.store.delete("leases", record, {});
    },
    (world) => {
      renews(world);
      world.harness.world.store.delete("nodes", { namespace: "", name: "a-0" }, {});
    },
  ];
  for (const change of gone) {
    const { world, sent, arming } = await armingBeside(change);
    assert.deepEqual([sent, arming], [1, ["note-agent done", "arm changed"]]);
    assert.equal(world.armed(), undefined);
  }
});

const peer = { name: "n-2", fingerprint: "0123456789abcdef" };
const claimedNow: RecordSeen = { ...claimed, agent: noted };
const step = { record: claimedNow, agent: agentSeen };
interface Now {
  readonly record: RecordSeen;
  readonly agent: AgentSeen;
  readonly node: NodeSeen;
}
const renewed: Now = { record: claimedNow, agent: { ...agentSeen, resourceVersion: "99" }, node: tainted };

test("a renewal changes nothing that arming rests on", () => {
  assert.equal(mayStillArm(step, renewed), true);
});

const changed: readonly (readonly [what: string, now: Partial<Now>])[] = [
  ["the record is another one", { record: { ...claimedNow, uid: "another" } }],
  ["the record was written", { record: { ...claimedNow, resourceVersion: "21" } }],
  ["the taint is gone", { node: marked }],
  ["the Lease is another one", { agent: { ...agentSeen, uid: "another" } }],
  ["the mode is another one", { agent: { ...agentSeen, mode: "armed" } }],
  ["the agent runs in another boot", { agent: { ...agentSeen, bootId: "boot-2" } }],
  ["the permit lasts longer", { agent: { ...agentSeen, permitMs: 60_000 } }],
  ["the watchdog takes longer", { agent: { ...agentSeen, watchdogMs: 20_000 } }],
  ["the peers are others", { agent: { ...agentSeen, peers: [peer] } }],
  ["the fence is armed", { agent: armedAgent }],
];

for (const [what, now] of changed) {
  test(`the write that arms a fence is not sent again where ${what}`, () => {
    assert.equal(mayStillArm(step, { ...renewed, ...now }), false);
  });
}

test("the write that arms a fence a second time is not sent again: its time may count by the version that is noted", () => {
  assert.equal(mayStillArm({ ...step, record: armed }, { ...renewed, record: armed }), false);
});

test("what an earlier fence has left in the Lease is no change, and the fence of another process is one", () => {
  const left = { ...agentSeen, armed: { fenceId: "fence-0", bootId: "boot-0" } };
  const withLeft = { ...step, agent: left };
  assert.equal(mayStillArm(withLeft, { ...renewed, agent: { ...left, resourceVersion: "99" } }), true);
  assert.equal(mayStillArm(withLeft, { ...renewed, agent: armedAgent }), false);
});
