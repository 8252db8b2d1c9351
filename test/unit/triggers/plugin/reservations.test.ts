/** What the plugin prints about a reservation in each of its states. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { outlook, type Situation } from "../../../../triggers/plugin/reservations.ts";
import { formatSpan } from "../../../../triggers/plugin/span.ts";
import { formatOrdinals } from "../../../../triggers/plugin/text.ts";
import { nowMs, pod, reservation, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

/** A reservation of the existing pod `a-1` by the rollout, a second old. */
function described(changes: Partial<Situation> = {}): string {
  const situation: Situation = {
    reservation: reservation("a-1"),
    standing: "open",
    pod: pod("a-1"),
    workload: statefulSet("a"),
    nowMs,
    ...changes,
  };
  return outlook(situation);
}

const aged = (seconds: number, by?: string) => ({
  reservation: reservation("a-1", { stampMs: nowMs - seconds * 1000, ...(by === undefined ? {} : { by }) }),
});

test("the reservation of a standing pod: its function acts for 5 s, finishes it from 7 s on, and may drop it at 150 s (R9, R10)", () => {
  assert.equal(described(aged(1)), "its function acts on it now; otherwise dropped in 149 s if its pod is still there");
  assert.equal(
    described(aged(4.999)),
    "its function acts on it now; otherwise dropped in 146 s if its pod is still there",
  );
  assert.match(
    described(aged(5)),
    /^finished by its function in 2 s, if it still decides so; otherwise dropped in 145 s/,
  );
  assert.match(
    described(aged(7)),
    /^finished by its function's next reconcile, if it still decides so; otherwise dropped in/,
  );
});

test("no sweep finishes a reservation that a review has made: the next review renews it (R12)", () => {
  const expected = "renewed when its eviction is asked for again; dropped in 90 s if its pod is still there";
  assert.equal(described(aged(60, "evaluate-eviction")), expected);
});

test("the reservation of a terminating pod settles when its replacement is ready, or when an unwanted pod is gone (R6)", () => {
  const terminating = { pod: pod("a-1", { terminating: true }) };
  assert.equal(described(terminating), "terminating; settles when the pod that replaces it is ready");
  const unwanted = { ...terminating, workload: statefulSet("a", { replicas: 1 }) };
  assert.equal(described(unwanted), "terminating; settles when it is gone");
  assert.equal(described({ ...terminating, workload: undefined }), "terminating; settles when it is gone");
});

test("the reservation of a missing or unready pod waits for it, and the text names what keeps the pod (R6)", () => {
  assert.equal(described({ pod: undefined }), "settles when the pod that replaces it is made and ready");
  const replaced = { uid: "another", readySinceMs: undefined };
  assert.equal(described({ pod: pod("a-1", replaced) }), "settles when the pod that replaces it is ready");
  const broken = pod("a-1", { ...replaced, stuck: "ImagePullBackOff" });
  assert.equal(
    described({ pod: broken }),
    "settles when the pod that replaces it is ready; the new pod is in ImagePullBackOff",
  );
  const recent = pod("a-1", { uid: "another", readySinceMs: nowMs - 4_000 });
  const patient = statefulSet("a", { minReadySeconds: 10 });
  assert.match(described({ pod: recent, workload: patient }), /is ready, in 6 s if the new pod stays ready$/);
});

test("a settled or abandoned reservation is removed with the next write", () => {
  assert.match(described({ standing: "settled" }), /^settled; the next write of the ledger removes it$/);
  assert.match(described({ standing: "abandoned" }), /^dropped by the next write of the ledger: no function can act/);
});

test("a duration is printed as one number with a suitable unit", () => {
  const spans = [-5, 0, 1, 299_000, 299_001, 7_199_000, 7_200_001, 172_000_000, 180_000_000].map(formatSpan);
  assert.deepEqual(spans, ["0 s", "0 s", "1 s", "299 s", "5 min", "2 h", "2 h", "2 d", "2 d"]);
});

test("neighbouring ordinals are printed as a range", () => {
  assert.equal(formatOrdinals([0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
  assert.equal(formatOrdinals([]), "");
});
