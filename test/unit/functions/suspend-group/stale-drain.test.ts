/** A statement that a volume is drained does not count for a pod or a volume claim that was created after it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

const week = 7 * 24 * 3_600_000;

async function both(on: Volumes, rounds: number, ms = 10_000): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    await on.suspend();
    await on.collect();
    await on.goOn(ms);
  }
}

/** The volume was recovered a week ago, and a pod has used it since; then the same two annotations are written again. */
async function writtenAgain(): Promise<Volumes> {
  const on = new Volumes("60s");
  await on.goOn(5_000);
  await on.suspended();
  const described = { suspend: on.recorded(top, "suspend") ?? "", "drained-at": on.recorded(top, "drained-at") ?? "" };
  on.annotate(top, { recover: "true" });
  await on.until(
    () => on.recorded(top, "recover") === undefined,
    () => on.suspend(),
  );
  await on.goOn(week);
  on.annotate(top, described);
  return on;
}

/** The existing annotations cause no removal. A new statement about the drain ends the wait. */
async function staysUntilAskedAnew(on: Volumes): Promise<void> {
  await both(on, 30);
  assert.ok(on.claim(top) !== undefined);
  on.ask(top);
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
}

test("pod-newer: a drained-at from before the pod's creation does not let the pod go, and the message says what to do", async () => {
  const on = await writtenAgain();
  await both(on, 12);
  assert.ok(on.pod("group-a-2") !== undefined);
  assert.ok(on.claim(top) !== undefined);
  assert.equal(on.guard === "pod-newer" || (on.recorded(top, "suspend-message") ?? "").startsWith("pod-newer: "), true);
  const message = on.recorded(top, "suspend-message") ?? "";
  assert.match(message, /sluice.dev\/drained-at says 2026-01-01T00:00:\d\dZ, .* it was made at 2026-01-01T00:00/);
  on.ask(top);
  await on.until(
    () => on.recorded(top, "suspend-state") === "Suspended",
    () => on.suspend(),
  );
});

test("pod-newer: if a user scales that pod away, the old drained-at does not let its volume be removed", async () => {
  const on = await writtenAgain();
  await both(on, 2);
  on.world.store.patch("statefulsets", { namespace, name: "group-a" }, { spec: { replicas: 2 } });
  await on.goOn(5_000);
  assert.equal(on.pod("group-a-2"), undefined);
  await both(on, 30);
  assert.ok(on.claim(top) !== undefined);
  assert.match(on.recorded(top, "suspend-message") ?? "", /^pod-newer: /);
});

test("an old drained-at that overwrites a new one while the volume's time runs does not let the volume be removed", async () => {
  const on = new Volumes("60s");
  const old = new Date(on.timeline.nowMs() - week).toISOString();
  await on.goOn(60_000);
  await on.suspended();
  assert.ok(on.recorded(top, "suspend-pod-created") !== undefined, "the removed pod's creation time is known");
  on.annotate(top, { "drained-at": old });
  await staysUntilAskedAnew(on);
});

test("claim-newer: a drained-at that is older than its volume claim, as in a copy, does not let the volume be removed", async () => {
  const on = new Volumes("60s");
  await on.suspended();
  const { annotations = {} } = structuredClone(on.claim(top)?.metadata) ?? {};
  await on.goOn(61_000);
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
  await on.goOn(3_600_000);
  on.world.store.create(volumes, namespace, { metadata: { name: top, annotations } } as never);
  await both(on, 30);
  assert.ok(on.claim(top) !== undefined);
  const [guard] = (on.recorded(top, "suspend-message") ?? "").split(": ", 1);
  assert.equal(guard, "claim-newer");
});

test("if an older version took the pod without recording its creation, the volume waits for a newer drained-at", async () => {
  const on = new Volumes("60s");
  await on.suspended();
  on.annotate(top, { "suspend-pod-created": null });
  await staysUntilAskedAnew(on);
});

test("a drained-at of 1970, of the future or of no time removes no volume, and lets no pod go", async () => {
  for (const word of ["1970-01-01T00:00:00Z", "2036-01-01T00:00:00Z", "yes", "", null]) {
    const on = new Volumes("60s");
    on.annotate(top, { suspend: "true", "drained-at": word });
    await both(on, 15);
    assert.ok(on.pod("group-a-2") !== undefined, String(word));
    const later = new Volumes("60s");
    await later.suspended();
    later.annotate(top, { "drained-at": word });
    await both(later, 15);
    assert.ok(later.claim(top) !== undefined, String(word));
  }
});
