/** The survey of all agents: when a process makes it, and what it writes to agents whose peers should be others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fingerprintOf } from "../../../../functions/fence-node/fingerprint.ts";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { fencing, type NodeWorld, nodeWorld } from "./node-world.ts";

const keyOf = (name: string) => (name.at(-1) ?? "").repeat(43);
const entry = (name: string) => `${name}=${fingerprintOf(keyOf(name))}`;
const proposedKey = "sluice.dev/agent-peers-proposed";
/** The node of the world, and two more. */
const names = ["a-0", "b-1", "c-2"];

/** A node and two more, each with an agent, and one process. */
class Surveyed {
  readonly world: NodeWorld = nodeWorld();
  readonly #memoryOf = createMemory();
  #renewals = 0;

  get #store() {
    return this.world.harness.world.store;
  }

  constructor() {
    for (const name of names.slice(1)) {
      const status = { conditions: [{ type: "Ready", status: "True" }] };
      this.#store.create("nodes", "", { metadata: { name } });
      this.#store.patch("nodes", { namespace: "", name }, { status }, "status");
      this.#store.create("leases", fencing, { metadata: { name: `agent-${name}` } });
    }
    for (const name of names) this.write(name, { "agent-key": keyOf(name), "agent-address": "10.0.0.1:9843" });
    this.renew();
    this.world.harness.restart({ memoryOf: this.#memoryOf });
  }

  write(name: string, texts: Readonly<Record<string, string | null>>): void {
    const annotations = Object.fromEntries(Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text]));
    this.#store.patch("leases", { namespace: fencing, name: `agent-${name}` }, { metadata: { annotations } });
  }

  renew(...of: readonly string[]): void {
    this.#renewals++;
    for (const name of of.length === 0 ? names : of) this.write(name, { "agent-renewals": String(this.#renewals) });
  }

  /** One tick of the schedule. Resolves to the nodes that are due. */
  async tick(): Promise<readonly string[]> {
    const { timeline, context } = this.world.harness;
    const due = await played(timeline, fenceNode.listKeys(context, undefined));
    return due.map(({ name }) => name).sort();
  }

  async reconcileAll(due: readonly string[]): Promise<void> {
    const { timeline, context } = this.world.harness;
    for (const name of due) {
      const key = { resource: "nodes", namespace: "", name } as const;
      await played(timeline, fenceNode.reconcile(context, key, { sweep: false }));
    }
  }

  /** Two ticks, between which the agents renew. */
  async begin(...renewing: readonly string[]): Promise<readonly string[]> {
    assert.deepEqual(await this.tick(), [], "the first survey has seen no agent renew");
    await this.world.harness.goOn(10_000);
    this.renew(...renewing);
    return this.tick();
  }

  proposedTo(name: string): string | undefined {
    return this.#store.get("leases", { namespace: fencing, name: `agent-${name}` }).metadata.annotations?.[proposedKey];
  }

  get guards(): readonly string[] {
    return this.world.harness.verdicts.map(({ guard }) => guard);
  }
}

test("proposing: agents that were seen to renew become peers of each other, by one write each", async () => {
  const surveyed = new Surveyed();
  const due = await surveyed.begin();
  assert.deepEqual(due, names);
  await surveyed.reconcileAll(due);
  assert.equal(surveyed.proposedTo("a-0"), `${entry("b-1")} ${entry("c-2")}`);
  assert.equal(surveyed.proposedTo("b-1"), `${entry("a-0")} ${entry("c-2")}`);
  const written = surveyed.world.harness.acts.filter(({ action }) => action === "propose").length;
  assert.equal(written, 3);
  await surveyed.reconcileAll(due);
  assert.equal(surveyed.world.harness.acts.filter(({ action }) => action === "propose").length, written);
  assert.deepEqual([...new Set(surveyed.guards)], ["proposing", "not-marked"]);
});

test("an agent that nothing has seen renew is proposed to none", async () => {
  const surveyed = new Surveyed();
  const due = await surveyed.begin("a-0", "b-1");
  await surveyed.reconcileAll(due);
  assert.equal(surveyed.proposedTo("a-0"), entry("b-1"));
  assert.equal(surveyed.proposedTo("c-2"), `${entry("a-0")} ${entry("b-1")}`);
});

test("a process surveys once a minute, whatever the ticks, and proposes a new key when it sees it", async () => {
  const surveyed = new Surveyed();
  await surveyed.reconcileAll(await surveyed.begin());
  const lists = () =>
    surveyed.world.harness.calls.filter(({ verb, given: [resource, query] }) => {
      return verb === "list" && resource === "leases" && !("labelSelector" in (query as object));
    }).length;
  const before = lists();
  surveyed.write("b-1", { "agent-key": keyOf("x") });
  for (let tick = 0; tick < 5; tick++) {
    await surveyed.world.harness.goOn(10_000);
    surveyed.renew();
    assert.deepEqual(await surveyed.tick(), []);
  }
  assert.equal(lists(), before);
  await surveyed.world.harness.goOn(10_000);
  assert.deepEqual(await surveyed.tick(), ["a-0", "c-2"]);
  assert.equal(lists(), before + 1);
});

test("nothing is proposed to the agent of a node that has a record", async () => {
  const surveyed = new Surveyed();
  const due = await surveyed.begin();
  surveyed.world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  await surveyed.reconcileAll(due);
  assert.equal(surveyed.proposedTo("a-0"), undefined);
  assert.notEqual(surveyed.world.armed(), undefined);
  assert.notEqual(surveyed.proposedTo("b-1"), undefined);
});

test("in shadow mode nothing is proposed", async () => {
  const surveyed = new Surveyed();
  const due = await surveyed.begin();
  const { harness } = surveyed.world;
  harness.restart({ mode: "shadow" });
  const key = { resource: "nodes", namespace: "", name: "a-0" } as const;
  await played(harness.timeline, fenceNode.reconcile(harness.context, key, { sweep: false }));
  assert.ok(due.includes("a-0"));
  assert.equal(surveyed.proposedTo("a-0"), undefined);
});

test("the survey reports how many nodes have an agent in each mode; one that has not renewed for two minutes is silent", async () => {
  const surveyed = new Surveyed();
  for (const name of names) surveyed.write(name, { "agent-mode": "armed" });
  assert.deepEqual(await surveyed.tick(), []);
  assert.equal(surveyed.world.harness.agents, undefined, "a process that begins has seen no agent renew");
  const counted = async (afterMs: number, ...renewing: readonly string[]) => {
    await surveyed.world.harness.goOn(afterMs);
    surveyed.renew(...renewing);
    await surveyed.tick();
    return [...(surveyed.world.harness.agents?.modes ?? [])].filter(([, nodes]) => nodes > 0);
  };
  assert.deepEqual(await counted(10_000), [["armed", 3]]);
  for (const name of ["a-0", "b-1"])
    surveyed.write(name, { "agent-mode": name === "a-0" ? "explicit-only" : "rubbish" });
  const expected = [
    ["armed", 1],
    ["explicit-only", 1],
    ["unknown", 1],
  ];
  assert.deepEqual(await counted(60_000, "a-0", "b-1"), expected);
  await counted(60_000, "a-0", "b-1");
  const silent = [
    ["explicit-only", 1],
    ["unknown", 1],
    ["silent", 1],
  ];
  assert.deepEqual(await counted(60_000, "a-0", "b-1"), silent);
});

test("an agent that is not armed has one Event on its Node, and one more when it is armed", async () => {
  const surveyed = new Surveyed();
  const { store } = surveyed.world.harness.world;
  const sent = () => store.list("events").items.map(({ reason, message }) => [reason, message]);
  surveyed.write("b-1", { "agent-mode": "explicit-only", "agent-why": "peers-silent" });
  const minutes = async (count: number) => {
    for (let minute = 0; minute < count; minute++) {
      await surveyed.world.harness.goOn(60_000);
      await surveyed.tick();
    }
  };
  for (const name of ["a-0", "c-2"]) surveyed.write(name, { "agent-mode": "armed" });
  await surveyed.tick();
  await minutes(10);
  const because = "the agent of b-1 is explicit-only (peers-silent): time is no evidence that the node has stopped";
  assert.deepEqual(sent(), [["AgentNotArmed", because]]);
  surveyed.write("b-1", { "agent-mode": "armed", "agent-why": null });
  await minutes(10);
  assert.deepEqual(
    sent()
      .map(([reason]) => reason)
      .sort(),
    ["AgentArmed", "AgentNotArmed"],
  );
});

test("the tick reports the fences of all nodes", async () => {
  const surveyed = new Surveyed();
  surveyed.world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  await surveyed.reconcileAll(["a-0"]);
  await surveyed.tick();
  const { phases, waiting } = surveyed.world.harness.fences ?? assert.fail();
  assert.equal(phases.get("armed"), 1);
  assert.deepEqual(
    waiting.map(({ guard, fences }) => [guard, fences]),
    [["not-armed", 1]],
  );
});
