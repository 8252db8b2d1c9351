/** The shipped agents through long outages in which nothing is fenced, in virtual time (A8). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { times } from "./fence-machine.ts";
import { type FenceEvent, FenceWorld } from "./fence-world.ts";

const minuteMs = 60_000;
/** All agents are armed by then. */
const beginsMs = 5 * minuteMs;

/** How often each machine has booted. */
const bootsOf = ({ machines }: FenceWorld) => machines.map(({ bootId }) => Number(bootId.split("-").at(-1)));

/** An outage of so long, after which there is as much time as there was before it. All agents are armed before and after it. */
async function liveThroughOutage(world: FenceWorld, forMs: number, begin: () => void, end: () => void): Promise<void> {
  const all = world.machines.map(() => "armed");
  const events: readonly FenceEvent[] = [
    {
      atMs: beginsMs,
      act() {
        assert.deepEqual(world.modes(), all);
        world.isApiDown = true;
        begin();
      },
    },
    {
      atMs: beginsMs + forMs,
      act() {
        world.isApiDown = false;
        end();
      },
    },
  ];
  await world.liveThrough(beginsMs + forMs + beginsMs, events);
  assert.deepEqual(world.modes(), all);
}

test("an API server that is away for 10 minutes, more than ten permits, resets none of five machines", async () => {
  assert.ok(10 * minuteMs > 10 * times.permitMs);
  const world = new FenceWorld(1, undefined, 5);
  await liveThroughOutage(
    world,
    10 * minuteMs,
    () => {},
    () => {},
  );
  assert.deepEqual(bootsOf(world), [1, 1, 1, 1, 1]);
});

test("where the network is away as well, each of five machines is reset once, and not again in 10 minutes", async () => {
  const world = new FenceWorld(2, undefined, 5);
  const { machines } = world;
  const join = (groupOf: (at: number) => number) => {
    for (const [at, machine] of machines.entries()) machine.group = groupOf(at);
  };
  await liveThroughOutage(
    world,
    10 * minuteMs,
    () => join((at) => at + 1),
    () => join(() => 0),
  );
  assert.deepEqual(bootsOf(world), [2, 2, 2, 2, 2]);
});

test("the one control-plane node, away for 3 minutes, takes the API server with it, and neither of two workers is reset", async () => {
  const world = new FenceWorld(3, undefined, 3);
  const [controlPlane] = world.machines;
  assert.ok(controlPlane);
  const labels = { "node-role.kubernetes.io/control-plane": "" };
  world.world.store.patch("nodes", { namespace: "", name: controlPlane.name }, { metadata: { labels } });
  await liveThroughOutage(
    world,
    3 * minuteMs,
    () => {
      controlPlane.isOn = false;
    },
    () => controlPlane.boot(),
  );
  assert.deepEqual(bootsOf(world), [2, 1, 1]);
});
