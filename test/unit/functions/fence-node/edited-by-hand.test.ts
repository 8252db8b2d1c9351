/** What other clients delete or write during a fence, before any of its writes: it goes on, and ends clean (A2, A3, A6). */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  agent,
  fencing,
  firstBoot,
  type NodeWorld,
  nodeWorld,
  outOfService,
  pod,
  record,
  slots,
} from "./node-world.ts";

const foreign = { key: "example.com/slow", effect: "PreferNoSchedule" };
const storeOf = ({ harness }: NodeWorld) => harness.world.store;
const annotate = (world: NodeWorld, lease: typeof agent, annotations: Readonly<Record<string, string | null>>) => {
  if (storeOf(world).find("leases", lease) !== undefined)
    storeOf(world).patch("leases", lease, { metadata: { annotations } });
};
const remove = (world: NodeWorld, lease: typeof agent) => {
  if (storeOf(world).find("leases", lease) !== undefined) storeOf(world).delete("leases", lease, {});
};

const edits: Readonly<Record<string, (world: NodeWorld) => void>> = {
  "the record is deleted": (world) => remove(world, record),
  "the evidence is taken out of the record": (world) => annotate(world, record, { "sluice.dev/fence-evidence": null }),
  "the agent's Lease is deleted, and its agent makes it anew"(world) {
    remove(world, agent);
    const annotations = { "sluice.dev/agent-mode": "explicit-only", "sluice.dev/agent-boot-id": firstBoot };
    storeOf(world).create("leases", fencing, { metadata: { name: agent.name, annotations } });
  },
  "the fence is taken out of the agent's Lease": (world) => annotate(world, agent, { "sluice.dev/fence-armed": null }),
  "the agent's Lease names another fence": (world) => annotate(world, agent, { "sluice.dev/fence-armed": "x y" }),
  "the Lease of the slots is emptied": (world) => annotate(world, slots, { "sluice.dev/fence-slots": null }),
  "another controller rewrites all taints": (world) => world.setTaints([foreign]),
  "the copy on the Node is edited": (world) =>
    world.annotate({ "sluice.dev/fence-phase": "fenced", "sluice.dev/fence-id": "x", "sluice.dev/fence-hold": null }),
};

const writing = new Set(["create", "patch", "delete"]);

/** Plays the edit before the write of this number. Returns whether it came to that. */
function editBefore(world: NodeWorld, number: number, edit: (world: NodeWorld) => void): () => boolean {
  let writes = 0;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (writing.has(verb) && resource !== "events" && ++writes === number) edit(world);
  };
  return () => writes >= number;
}

/** A2: each time when out-of-service comes, a record of this boot has had evidence, and our taint is there. */
function watchTaint(world: NodeWorld, when: string): void {
  const store = storeOf(world);
  let hadEvidence = false;
  store.onChange("leases", () => {
    hadEvidence ||= world.record()?.["fence-evidence"] !== undefined;
  });
  store.onChange("nodes", ({ previous, current }) => {
    const taintsOf = (one: typeof current) => (one?.spec?.taints ?? []).map(({ key }) => key);
    if (taintsOf(previous).includes(outOfService) || !taintsOf(current).includes(outOfService)) return;
    assert.ok(hadEvidence && taintsOf(current).includes("sluice.dev/fence"), when);
  });
}

/** The machine boots. Without its record the fence is another one, which asks for one more boot. */
async function endsClean(world: NodeWorld, when: string, mostBoots: number): Promise<void> {
  let guard: string | undefined;
  for (let boots = 1; boots <= mostBoots && guard !== "not-marked"; boots++) {
    const bootId = `${firstBoot}-${boots}`;
    annotate(world, agent, { "sluice.dev/agent-boot-id": bootId });
    world.boot(bootId);
    guard = await world.reconcile();
  }
  assert.equal(guard, "not-marked", when);
  const others = world.taints().filter((key) => key !== foreign.key);
  assert.deepEqual([world.record(), world.armed(), others], [undefined, undefined, []], when);
  assert.deepEqual([world.texts(), world.slots()?.slots ?? []], [{}, []], when);
}

for (const [what, edit] of Object.entries(edits)) {
  const mostBoots = what === "the record is deleted" ? 2 : 1;
  test(`a node that comes back keeps its pod, and nothing of its fence is left, if ${what} before any of the writes`, async () => {
    let edited = 0;
    for (let number = 1; number < 40; number++) {
      const when = `${what} before write ${number}`;
      const world = nodeWorld();
      const { uid } = storeOf(world).get("pods", pod).metadata;
      const isEdited = editBefore(world, number, edit);
      watchTaint(world, when);
      world.annotate({ "sluice.dev/unhealthy": "disk failed" });
      await world.reconcile();
      assert.match(world.armed() ?? "", new RegExp(` ${firstBoot}$`), when);
      await endsClean(world, when, mostBoots);
      assert.equal(storeOf(world).get("pods", pod).metadata.uid, uid, when);
      if (!isEdited()) break;
      edited++;
    }
    assert.ok(edited >= 10 && edited < 39, `${edited} times`);
  });

  test(`a machine that stays off is evacuated by a person's word alone, and its fence ends clean, if ${what} before any of the writes`, async () => {
    let edited = 0;
    for (let number = 1; number < 40; number++) {
      const when = `${what} before write ${number}`;
      const world = nodeWorld();
      const isEdited = editBefore(world, number, edit);
      watchTaint(world, when);
      world.annotate({ "sluice.dev/unhealthy": "disk failed" });
      await world.reconcile();
      world.falls();
      await world.reconcile();
      // A fence that began anew has another id, and waits for another confirmation.
      for (let words = 0; words < 3 && world.record()?.["fence-phase"] !== "fenced"; words++) {
        world.annotate({ "sluice.dev/fence-confirmed": world.record()?.["fence-id"] ?? "" });
        await world.reconcile();
        await world.harness.goOn(60_000);
        await world.reconcile();
      }
      assert.equal(world.record()?.["fence-phase"], "fenced", when);
      await endsClean(world, when, mostBoots);
      if (!isEdited()) break;
      edited++;
    }
    assert.ok(edited >= 10 && edited < 39, `${edited} times`);
  });
}
