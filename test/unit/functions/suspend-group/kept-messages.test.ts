/** One process changes a volume claim's message at most every ten seconds, and the last message is right. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide as decideRemoval } from "../../../../functions/gc-suspended-groups/decide.ts";
import { keptMessageMs } from "../../../../functions/shared/suspension/message-reporter.ts";
import { Suspended } from "../../../support/suspended.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";
import { decideOn, suspending } from "./given.ts";

const volumeClaim = `uid-${top.replace("group", "db")}`;
const recentMessages = new Set([volumeClaim]);

/** The drain of db-a-2 is not stated yet, and its volume claim has this message. */
function waiting(text: string): Suspended {
  const on = suspending(["a"]);
  on.annotate("a", 2, {
    "suspend-message": text,
    "suspend-pod-created": "2026-06-01T10:00:00Z",
    "drained-at": undefined,
  });
  return on;
}

test("a new message does not replace a recent one, and the next reconcile comes when it may", () => {
  const verdict = decideOn(waiting("budget: as it was"), { recentMessages });
  assert.deepEqual([verdict.kind, verdict.kind === "wait" && verdict.guard], ["wait", "not-drained"]);
  assert.ok((verdict.requeueAfterMs ?? Number.POSITIVE_INFINITY) <= keptMessageMs, `${verdict.requeueAfterMs} ms`);
  assert.equal(decideOn(waiting("budget: as it was")).kind, "take");
});

test("a recent message that only reports progress is replaced at once, and so is that of a pod whose creation is not recorded", () => {
  assert.equal(decideOn(waiting("suspending: db-a-2 is to go"), { recentMessages }).kind, "take");
  const on = waiting("budget: as it was");
  on.annotate("a", 2, { "suspend-pod-created": undefined });
  assert.equal(decideOn(on, { recentMessages }).kind, "take");
});

test("gc-suspended-groups keeps a recent message as well, and reconciles again when it may be replaced", () => {
  const on = Suspended.of(["a"], 3, { "suspend-duration": "7d" });
  on.suspend("a", 2, 5);
  on.annotate("a", 2, { hold: "true", "suspend-message": "suspended: as it was" });
  const snapshot = { ...on.around("gc-suspended-groups", "volume"), removes: true };
  assert.equal(decideRemoval(snapshot).kind, "take");
  const verdict = decideRemoval({ ...snapshot, recentMessages });
  assert.deepEqual([verdict.kind, verdict.kind === "wait" && verdict.guard], ["wait", "on-hold"]);
  assert.ok((verdict.requeueAfterMs ?? Number.POSITIVE_INFINITY) <= keptMessageMs, `${verdict.requeueAfterMs} ms`);
});

/** Number of writes to the volume claim while its state alternates every second for a minute. */
async function writesOf(on: Volumes, turn: (isOdd: boolean) => void, observe: () => Promise<void>): Promise<number> {
  let writes = 0;
  for (let second = 0; second < 60; second++) {
    turn(second % 2 === 1);
    on.calls.length = 0;
    await observe();
    writes += on.calls.filter(({ verb, resource }) => verb === "patch" && resource === volumes).length;
    await on.goOn(1_000);
  }
  return writes;
}

/** The writes while a volume's state alternates, and the volume claim's message when it has stopped. */
async function atRest(on: Volumes, turn: (isOdd: boolean) => void, observe: () => Promise<void>): Promise<string> {
  const writes = await writesOf(on, turn, observe);
  assert.ok(writes > 2 && writes <= 7, `${writes} writes`);
  turn(false);
  await on.goOn(keptMessageMs);
  await observe();
  return on.recorded(top, "suspend-message") ?? "";
}

test("suspend-group: two reasons in turn cause at most six writes a minute, and the reason that stays is reported", async () => {
  const on = new Volumes();
  on.annotate(top, { suspend: "true" });
  const turn = (isOdd: boolean) => on.policy("group-a", { "suspend-duration": isOdd ? "600s" : "soon" });
  assert.match(await atRest(on, turn, () => on.suspend()), /^duration-malformed: /);
});

test("gc-suspended-groups: two reasons in turn cause at most six writes a minute, and the reason that stays is reported", async () => {
  const on = new Volumes();
  await on.suspended();
  const turn = (isOdd: boolean) => on.annotate(top, { hold: isOdd ? null : "true" });
  assert.match(await atRest(on, turn, () => on.collect()), /^on-hold: /);
});
