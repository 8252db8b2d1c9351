/** The order in which processes restart in their turn. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { byName, byTurn, type InOrder } from "../../../../functions/advance-process-restart/decide-order.ts";
import { pod, statefulSet } from "../advance-zone-rollout/given.ts";

/** As `NAME` with `!` for a pod that is not available, and `*` for one that is eligible as master. */
function inOrder(text: string): InOrder {
  const name = text.replace(/[!*]/g, "");
  const zone = { workload: statefulSet(name.replace(/-\d+$/, "")) };
  return { zone, pod: pod(name), isAvailable: !text.includes("!"), isMasterEligible: text.includes("*") };
}

const sorted = (...texts: readonly string[]) =>
  texts
    .map(inOrder)
    .sort(byTurn)
    .map((one) => one.pod.name)
    .join(" ");

test("the highest ordinal of the first StatefulSet by name comes first", () => {
  for (const texts of [
    ["b-3", "a-1", "a-10", "a-9"],
    ["a-1", "a-9", "b-3", "a-10"],
    ["a-9", "a-10", "a-1", "b-3"],
  ])
    assert.equal(sorted(...texts), "a-10 a-9 a-1 b-3");
  const [first, other] = [inOrder("a-1"), inOrder("b-3")];
  assert.ok(byName(first, other) < 0 && byName(other, first) > 0);
});

test("pods that are not eligible as master come before those that are, whichever StatefulSet has them", () => {
  assert.equal(sorted("a-2*", "b-0", "a-1*", "b-1"), "b-1 b-0 a-2 a-1");
});

test("pods that are not available come first, eligible as master or not", () => {
  assert.equal(sorted("a-2", "b-0!*", "a-1!", "b-1*"), "a-1 b-0 a-2 b-1");
});
