/** What kubectl sluice shows of fences, and what it writes to begin one and to confirm it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  armedWorld,
  fenceIdOf,
  fencing,
  type NodeWorld,
  node,
  nodeWorld,
} from "../../functions/fence-node/node-world.ts";
import { sluice, writes } from "./terminal.ts";

const [mark, confirmed] = ["sluice.dev/unhealthy", "sluice.dev/fence-confirmed"];
const text = ({ harness }: NodeWorld, key: string) =>
  harness.world.store.get("nodes", { namespace: "", name: node.name }).metadata.annotations?.[key];

/** @returns what the command printed, and which requests it sent to write something */
async function run({ harness }: NodeWorld, line: string) {
  const before = writes(harness).length;
  const printed = await sluice(harness, line);
  return { ...printed, wrote: writes(harness).slice(before) };
}

test("fence writes the mark once, under the revision of a read, and says how it is taken back; --dry-run writes nothing", async () => {
  const world = nodeWorld();
  const pretended = await run(world, "fence a-0 --dry-run");
  assert.deepEqual([pretended.code, pretended.wrote, text(world, mark)], [0, [], undefined]);
  const { code, out, wrote } = await run(world, "fence a-0 --reason=silent");
  assert.deepEqual([code, wrote, text(world, mark)], [0, ["patch nodes"], "silent"]);
  assert.match(out, /^a-0 is marked: silent\. .*kubectl annotate node a-0 sluice\.dev\/unhealthy-$/m);
  const again = await run(world, "fence a-0");
  assert.deepEqual([again.code, again.wrote, text(world, mark)], [0, [], "silent"]);
  assert.match(again.out, /has the mark already: silent/);
});

test("with --mark, fence writes the key that FENCE_MARK names, fenced shows that mark, and the usual key is none", async () => {
  const [world, key] = [nodeWorld({ isAgentless: true }), "example.com/broken"];
  world.annotate({ [mark]: "another tool" });
  assert.equal((await run(world, `fenced --mark ${key}`)).err[0], "no node is fenced or marked");
  const { code, out, wrote } = await run(world, `fence a-0 --mark ${key} --reason=silent`);
  assert.deepEqual([code, wrote, text(world, key), text(world, mark)], [0, ["patch nodes"], "silent", "another tool"]);
  assert.match(out, /: kubectl annotate node a-0 example\.com\/broken-$/m);
  assert.match((await run(world, `fence a-0 --mark ${key}`)).out, /has the mark already: silent/);
  assert.match((await run(world, `fenced a-0 --mark ${key}`)).out, /^a-0 +- +- +- +- +yes +silent$/m);
});

test("fence is refused for a Node that is gone, and for one that excludes itself, also if it does so in between", async () => {
  const world = nodeWorld();
  assert.deepEqual((await run(world, "fence b-0")).err, ["there is no Node b-0"]);
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "patch" && resource === "nodes") world.annotate({ "sluice.dev/fence": "never" });
  };
  const raced = await run(world, "fence a-0");
  assert.deepEqual([raced.code, text(world, mark)], [1, undefined]);
  assert.match(raced.err[0] ?? "", /has the annotation sluice\.dev\/fence, which excludes it/);
});

test("fenced shows each fence with what it waits for, and the agents that are not armed, and writes nothing", async () => {
  const world = await armedWorld();
  const { code, out, wrote } = await run(world, "fenced");
  assert.deepEqual([code, wrote], [0, []]);
  assert.match(out, /^a-0 +armed +\d+ s +- +not-armed +yes +disk failed$/m);
  assert.match(out, /^a-0 +explicit-only +-$/m);
  assert.match(out, /^kubectl describe node NODE prints why it waits/m);
  assert.match(out, /^0 of 1 nodes have an agent that is armed$/m);
  const list = JSON.parse((await run(world, "fenced a-0 -o json")).out);
  assert.equal(list.fences[0].fenceId, fenceIdOf(world));
  assert.match((await run(world, "fenced -o yaml")).out, /^ +phase: armed$/m);
});

test("fenced shows a mark without a fence, a node without an agent, a Node that is gone, and a record that it cannot read", async () => {
  const world = nodeWorld({ isAgentless: true });
  const { store } = world.harness.world;
  const quiet = await run(world, "fenced");
  assert.deepEqual([quiet.code, quiet.err], [0, ["no node is fenced or marked"]]);
  assert.match(quiet.out, /^a-0 +- +no agent has run there$/m);
  world.annotate({ [mark]: "silent" });
  const labels = { "sluice.dev/fence-record": "true" };
  store.create("leases", fencing, { metadata: { name: "fence-gone-0", labels } });
  const { out } = await run(world, "fenced");
  assert.match(out, /^a-0 +- +- +- +- +yes +silent$/m);
  assert.match(out, /^gone-0 +unreadable +- +- +- +gone +-$/m);
  const absent = await run(world, "fenced b-0");
  assert.deepEqual([absent.code, absent.err], [1, ["there is no Node b-0"]]);
});

test("confirm writes the id of the armed fence, and fence-node takes it as evidence", async () => {
  const world = await armedWorld();
  world.falls();
  const pretended = await run(world, "confirm a-0 --yes --dry-run");
  assert.deepEqual([pretended.code, pretended.wrote, text(world, confirmed)], [0, [], undefined]);
  const { code, wrote } = await run(world, "confirm a-0 --yes");
  assert.deepEqual([code, wrote, text(world, confirmed)], [0, ["patch nodes"], fenceIdOf(world)]);
  assert.match((await run(world, "confirm a-0 --yes")).out, /^a-0 is confirmed already$/m);
  await world.reconcile();
  assert.match(
    (await run(world, "confirm a-0 --yes")).out,
    /^nothing is left to confirm: a-0 has stopped \(confirmed\)$/m,
  );
});

test("confirm is refused without a fence, before it is armed, in another namespace, and while the Node is Ready", async () => {
  const unfenced = nodeWorld();
  assert.match(
    (await run(unfenced, "confirm a-0 --yes")).err[0] ?? "",
    /^a-0 is not fenced: namespace sluice-fencing has/,
  );
  const world = await armedWorld();
  const ready = await run(world, "confirm a-0 --yes");
  assert.deepEqual([ready.code, text(world, confirmed)], [1, undefined]);
  assert.match(ready.err[0] ?? "", /^the Node a-0 is Ready, so its machine runs/);
  world.falls();
  assert.match((await run(world, "confirm a-0 --yes -n other")).err[0] ?? "", /namespace other has no record/);
  const record = { namespace: fencing, name: "fence-a-0" };
  world.harness.world.store.patch("leases", record, {
    metadata: { annotations: { "sluice.dev/fence-phase": "claimed" } },
  });
  assert.match((await run(world, "confirm a-0 --yes")).err[0] ?? "", /is not armed yet$/);
  assert.equal(text(world, confirmed), undefined);
});
