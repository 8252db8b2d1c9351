/** The shipped agents through a day on which nothing is fenced, in virtual time (A8). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { times } from "./fence-machine.ts";
import { FenceWorld } from "./fence-world.ts";

const dayMs = 24 * 3_600_000;

test("through a day of short outages, lost requests and killed agents no machine is reset, and each agent sends one request for a renewal and one for a drill", async (context) => {
  const world = new FenceWorld(1);
  const modes = await world.liveQuietly(dayMs);
  const { machines } = world;
  assert.deepEqual(
    modes,
    machines.map(() => "armed"),
    "each watchdog would have reset its machine",
  );
  assert.deepEqual(
    machines.map(({ bootId }) => bootId),
    machines.map(({ name }) => `boot-${name}-1`),
  );
  const most = Math.max(...machines.map(({ requests }) => requests));
  const expected = dayMs / times.renewEveryMs + dayMs / times.drillEveryMs;
  context.diagnostic(`${machines.length} machines, at most ${most} requests of ${expected}`);
  assert.ok(most < expected, `${most} requests, and ${expected} are expected`);
});
