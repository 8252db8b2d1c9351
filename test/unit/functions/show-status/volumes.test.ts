/** The suspended volumes of the status: by a LIST every ten seconds, where a function for them is served. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { suspended } from "../../../../functions/shared/annotations/suspension.ts";
import type { StatusContext } from "../../../../functions/shared/contract/definition.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import { minutesAgo, nowMs, Suspended } from "../../../support/suspended.ts";
import { guards } from "./given.ts";
import { answeredBy, failing } from "./started.ts";

/** A process whose API server lists these objects, by the clock of the test. */
function scene(on: Suspended, changes: Partial<StatusContext> = {}) {
  const asked: string[] = [];
  let [atMs, isAway] = [0, false];
  const list = (async (resource: string, { labelSelector }: { readonly labelSelector?: string }) => {
    if (/claims|sets/.test(resource)) asked.push(resource);
    if (isAway && resource === "persistentvolumeclaims") throw failing(503, "unavailable", resource);
    const claims = [...on.claims.values()].filter(({ metadata }) => metadata.finalizers !== undefined);
    assert.equal(labelSelector, { persistentvolumeclaims: `${suspended.key}=true` }[resource] ?? labelSelector);
    const items = { statefulsets: [...on.sets.values()], persistentvolumeclaims: claims }[resource] ?? [];
    return { items, resourceVersion: "1" };
  }) as unknown as StatusContext["cluster"]["list"];
  /** The time of a caller that waits for its turn passes at once, and the time in which a LIST may answer never ends. */
  const sleep = async (ms: number, signal?: AbortSignal) => {
    if (signal !== undefined) return new Promise<void>(() => {});
    atMs += ms;
    return undefined;
  };
  const get = () => assert.fail("no pod is read");
  const read = showStatus.open({
    cluster: { get, list, monotonicMs: () => atMs, serverTimeMs: () => nowMs + atMs, sleep },
    ...{ cache: { read: () => assert.fail("there is no group") }, groups: () => [], guards, answeredBy },
    suspendsVolumes: true,
    ...changes,
  });
  const readAt = (seconds: number) => {
    atMs = seconds * 1_000;
    return read();
  };
  const cutOff = () => {
    isAway = true;
  };
  return { asked, readAt, cutOff };
}

test("suspended volumes stand in the order of their names with the time from which each may be removed", async () => {
  const on = Suspended.of(["b", "a"], 3);
  on.suspend("b", 2, 10);
  on.suspend("a", 2, 20);
  const status = await scene(on).readAt(0);
  assert.deepEqual(
    status?.volumes?.map(({ name, zone, suspendedAt, removableAt }) => [name, zone, suspendedAt, removableAt]),
    [
      ["data-db-a-2", "db-a", minutesAgo(20), minutesAgo(-40)],
      ["data-db-b-2", "db-b", minutesAgo(10), minutesAgo(-50)],
    ],
  );
  assert.deepEqual(
    status?.needsPerson.map(({ reason, object }) => [reason, object]),
    [
      ["volume-removal-near", "data-db-a-2"],
      ["volume-removal-near", "data-db-b-2"],
    ],
  );
});

test("no removal is near for a volume that a user keeps, recovers, or has frozen by the mode None", async () => {
  const changes: readonly ((on: Suspended) => void)[] = [
    (on) => on.annotate("a", 2, { hold: "true" }),
    (on) => on.policy("a", { hold: "true" }),
    (on) => on.annotate("a", 2, { recover: "true" }),
    (on) => on.policy("a", { "removal-mode": "None" }),
  ];
  for (const change of changes) {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 10);
    change(on);
    const status = await scene(on).readAt(0);
    assert.deepEqual([status?.volumes?.[0]?.removableAt, status?.needsPerson], [null, []]);
  }
});

test("volumes are listed once in ten seconds, and StatefulSets only if there is one; without a function for volumes nothing is", async () => {
  const { asked, readAt, cutOff } = scene(Suspended.of(["a"]));
  for (const seconds of [0, 5, 9.8]) assert.deepEqual((await readAt(seconds))?.volumes, []);
  assert.deepEqual(asked, ["persistentvolumeclaims"]);
  cutOff();
  const status = await readAt(11);
  assert.equal(asked.length, 2);
  assert.deepEqual(status?.volumes, [], "an API server that fails shows nothing new");
  assert.deepEqual(
    status?.leftOut.map(({ part, why }) => [part, why]),
    [["suspended volumes", "unavailable"]],
  );
  const without = scene(Suspended.of(["a"]), { suspendsVolumes: false });
  assert.equal((await without.readAt(0))?.volumes, null);
  assert.deepEqual(without.asked, []);
});

test("a page that is fetched every 10 s shows volumes of that moment each time, although its timer is not exact", async () => {
  const { asked, readAt } = scene(Suspended.of(["a"]));
  for (const seconds of [0, 9.95, 19.99]) await readAt(seconds);
  assert.equal(asked.length, 3);
});
