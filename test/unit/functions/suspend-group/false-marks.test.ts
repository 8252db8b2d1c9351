/** The mark of a removal counts only if the ledger has the claim that it names, for the uid of its volume claim. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import { key, namespace, played } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

/** Lets both functions reconcile for a while. */
async function reconcileFor(on: Volumes, seconds: number): Promise<void> {
  for (let past = 0; past < seconds; past += 10) {
    await on.suspend();
    await on.collect();
    await on.goOn(10_000);
  }
}

test("a volume claim that is recreated from a copy with the state Removing is kept for its whole time", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  await on.elapse(3_601_000);
  await on.marked();
  const { annotations = {} } = structuredClone(on.claim(top)?.metadata) ?? {};
  assert.equal(annotations["sluice.dev/suspend-state"], "Removing");
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
  on.world.store.create(volumes, namespace, { metadata: { name: top, annotations } } as never);
  await reconcileFor(on, 600);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined);
  assert.notEqual(on.recorded(top, "suspend-state"), "Removing");
  assert.equal(on.recorded(top, "removal-claim"), undefined);
  assert.match(on.events.join("\n"), /RemovalMarkUnknown data-group-a-2: .*the ledger holds none for its uid/);
});

test("mark-unknown: a mark that a user writes by hand is removed, an Event says so, and the volume's time begins again", async () => {
  const on = new Volumes("600s");
  await on.suspended();
  await on.goOn(500_000);
  on.annotate(top, { "suspend-state": "Removing" });
  await on.suspend();
  const [guard] = (on.recorded(top, "suspend-message") ?? "").split(": ", 1);
  assert.equal(guard, "mark-unknown");
  assert.equal(on.recorded(top, "suspend-state"), "Suspending");
  assert.equal(on.recorded(top, "suspended-at"), undefined);
  const marks = () => on.events.filter((text) => text.startsWith("RemovalMarkUnknown"));
  assert.equal(marks().length, 1);
  await reconcileFor(on, 500);
  assert.ok(on.claim(top) !== undefined, "the time before the mark does not count");
  assert.equal(marks().length, 1, "the mark is reported once");
});

test("a mark on the volume claim of a running pod without a request is removed, and the pod is not touched", async () => {
  const on = new Volumes("600s");
  on.annotate(top, { "suspend-state": "Removing", "removal-claim": "made up" });
  const pod = on.pod("group-a-2")?.metadata.uid;
  await reconcileFor(on, 60);
  assert.equal(on.recorded(top, "suspend-state"), undefined);
  assert.equal(on.pod("group-a-2")?.metadata.uid, pod);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined);
});

test("a mark that names another volume's claim does not count", async () => {
  const on = new Volumes("600s");
  await on.suspended();
  await on.elapse(601_000);
  await on.marked();
  const other = "data-group-b-2";
  on.annotate(other, { "suspend-state": "Removing", "removal-claim": on.recorded(top, "removal-claim") ?? "" });
  await on.suspend();
  assert.equal(on.recorded(other, "suspend-state"), undefined);
  assert.equal(on.recorded(top, "suspend-state"), "Removing", "the mark with its own claim in the ledger stays");
});

test("a process whose copy of the ledger is older than a mark does not remove the mark", async () => {
  const on = new Volumes("600s");
  await on.suspended();
  await on.elapse(601_000);
  await on.suspend(false);
  const before = on.context; // Its copy of the ledger has no claim.
  on.restart();
  await on.marked();
  const marked = on.claim(top)?.metadata.resourceVersion;
  const { pendingActs } = await played(on.timeline, suspendGroup.reconcile(before, key, { sweep: false }));
  if (pendingActs !== undefined) await played(on.timeline, pendingActs);
  assert.equal(on.claim(top)?.metadata.resourceVersion, marked);
});
