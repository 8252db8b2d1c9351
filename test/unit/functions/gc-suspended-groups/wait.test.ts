/** The wait between removals applies to pods and to volumes, even if nothing is left of the last removal. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { Volumes } from "../../shared/suspension/volumes.ts";

const waitMs = 60_000;
const [ofA, ofB] = ["data-group-a-2", "data-group-b-2"] as const;

function replicasOf(volumes: Volumes, name: string): number {
  return volumes.world.store.get("statefulsets", { namespace, name }).spec.replicas;
}

/** Checks every second until the condition holds. Resolves to that time. */
async function when(volumes: Volumes, isSo: () => boolean): Promise<number> {
  for (let n = 0; n < 300 && !isSo(); n++) {
    await volumes.suspend();
    await volumes.collect();
    await volumes.goOn(1_000);
  }
  assert.ok(
    isSo(),
    volumes.verdicts
      .slice(-2)
      .map(({ guard, message }) => `${guard}: ${message}`)
      .join(" | "),
  );
  return volumes.timeline.nowMs();
}

const takenTogether = async (duration: string): Promise<Volumes> => {
  const volumes = new Volumes(duration, { "wait-between-removals": "60s" });
  for (const name of [ofA, ofB]) volumes.ask(name);
  return volumes;
};

test("wait-between-removals: the next zone's pod goes only after the wait since the last one, and so do the volumes", async () => {
  const volumes = await takenTogether("5s");
  await when(volumes, () => replicasOf(volumes, "group-a") === 2);
  const firstMs = await when(volumes, () => volumes.pod("group-a-2") === undefined);
  const secondMs = await when(volumes, () => replicasOf(volumes, "group-b") === 2);
  assert.ok(secondMs - firstMs >= waitMs - 1_000, `pods: ${secondMs - firstMs} ms`);
  const goneMs = await when(volumes, () => [ofA, ofB].some((name) => volumes.claim(name) === undefined));
  const nextMs = await when(volumes, () => [ofA, ofB].every((name) => !volumes.isKept(name)));
  assert.ok(nextMs - goneMs >= waitMs - 1_000, `volumes: ${nextMs - goneMs} ms`);
});

test("the wait between two volumes survives a process that ends right after the first one has gone", async () => {
  const volumes = await takenTogether("600s");
  await when(volumes, () => [ofA, ofB].every((name) => volumes.recorded(name, "suspend-state") === "Suspended"));
  await volumes.elapse(700_000, () => volumes.suspend());
  let isGone = () => [ofA, ofB].some((name) => volumes.claim(name) === undefined);
  while (!isGone()) {
    await volumes.collect();
    await volumes.goOn(1_000);
  }
  const goneMs = volumes.timeline.nowMs();
  volumes.restart();
  isGone = () => [ofA, ofB].every((name) => !volumes.isKept(name));
  const nextMs = await when(volumes, isGone);
  assert.ok(nextMs - goneMs >= waitMs - 1_000, `${nextMs - goneMs} ms`);
  assert.ok((volumes.ledger.lastRemovalMs ?? 0) >= goneMs - 2_000, "the write that ends the claim says it");
});

test("an unreadable or future time of the last removal counts as now, and is written again", async () => {
  for (const text of ["lately", String(Date.parse("2099-01-01T00:00:00Z"))]) {
    const volumes = await takenTogether("5s");
    await volumes.suspend();
    await volumes.goOn(1_000);
    await volumes.suspend();
    volumes.writeLedger({ "sluice.dev/last-removal": text });
    volumes.restart();
    const fromMs = volumes.timeline.nowMs();
    const atMs = await when(volumes, () => replicasOf(volumes, "group-a") === 2);
    assert.ok(atMs - fromMs >= waitMs - 1_000 && atMs - fromMs < 2 * waitMs, `${text}: ${atMs - fromMs} ms`);
  }
});
