/** What `kubectl sluice why` prints below the message of a verdict: what to do, or that this version does not know the guard. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { explainGuard } from "../../../../triggers/plugin/guards.ts";
import { Harness } from "../../shared/reconcile/harness.ts";
import { sluice } from "./terminal.ts";

/** A group whose ledger has a verdict of the rollout that another version, or a user, has written. */
async function recorded(guard: string, by = "advance-zone-rollout"): Promise<Harness> {
  const harness = await new Harness({ paused: ["a", "b"] }).prepare();
  await harness.run();
  const nowMs = harness.cluster.serverTimeMs();
  const verdict = { guard, zone: "group-a", sentence: "it waits for the moon", since: nowMs, at: nowMs };
  harness.writeLedger({ "sluice.dev/verdicts": JSON.stringify({ [by]: verdict }) });
  return harness;
}

test("why prints below the message what to do, with the names filled in, and its JSON has that and how the guard ends", async () => {
  const harness = await recorded("paused");
  const todo = "kubectl annotate statefulset -n db group-a grafana.com/rollout-paused-";
  const { out } = await sluice(harness, "why group");
  assert.match(
    out,
    /^advance-zone-rollout said paused, .*\n {2}it waits for the moon\n {2}To do: kubectl annotate .*-$/m,
  );
  const [shown] = JSON.parse((await sluice(harness, "why group -o json")).out).functions;
  assert.deepEqual([shown.recorded.ends, shown.recorded.todo], ["depends", todo]);
  assert.deepEqual([shown.now.guard, shown.now.ends, shown.now.todo], ["paused", "depends", todo]);
});

test("why shows a guard that this version does not know with its message, and needs no person for it", async () => {
  for (const [guard, by] of [
    ["moon-phase", "advance-zone-rollout"],
    ["constructor", "advance-zone-rollout"],
    ["paused", "watch-the-moon"],
  ] as const) {
    const harness = await recorded(guard, by);
    const { out } = await sluice(harness, "why group");
    const expected = new RegExp(
      `^${by} said ${guard}, .*\\n  it waits for the moon\\n  this version does not know it$`,
      "m",
    );
    assert.match(out, expected);
    const shown = JSON.parse((await sluice(harness, "why group -o json")).out).functions;
    const one = shown.find(({ function: name }: { readonly function: string }) => name === by);
    assert.deepEqual([one.recorded.ends, one.recorded.todo], [null, null]);
  }
});

test("a zone that a Lease names and that no object can be called stays a word in capitals in the command", () => {
  const places = { namespace: "db", group: "group", zone: "a; reboot" };
  assert.deepEqual(explainGuard("advance-zone-rollout", "paused", places), {
    ends: "depends",
    todo: "kubectl annotate statefulset -n db ZONE grafana.com/rollout-paused-",
  });
});
