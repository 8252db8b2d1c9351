/**
 * What the application's pods say about the data of another pod, and what that blocks: one snapshot, one verdict
 * (spec 3.2, I11).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideMember } from "../../../../functions/suspend-group/decide-member.ts";
import type { SuspendSnapshot } from "../../../../functions/suspend-group/lowering.ts";
import { minutesAgo, now, Suspended } from "../../../support/suspended.ts";
import { decided, decideOn, suspending } from "./given.ts";

/** The members of a group, with the application's answer about the data of each member that was asked about. */
const answered = (on: Suspended, state: "good" | "bad" | "unknown" | "not-asked"): Partial<SuspendSnapshot> => {
  const drain =
    state === "not-asked" ? undefined : { pod: "db-a-0", health: { state, detail: "HTTP 1" }, agreeing: ["db-a-0"] };
  return { members: on.members.map((one) => (one.ordinal === 2 && drain ? { ...one, drain } : one)) };
};

test("drain-refused, drain-unknown, drain-not-asked: if the application is asked, its answer decides, and no drained-at counts instead", () => {
  for (const word of [undefined, minutesAgo(90)]) {
    const on = Suspended.of(["a"], 3, { "suspend-duration": "1h", "drain-url": "http://:80/drained/{pod}" });
    on.annotate("a", 2, { suspend: "true", "drained-at": word });
    assert.deepEqual(decided(on, answered(on, "bad")), ["drain-refused"]);
    assert.deepEqual(decided(on, answered(on, "unknown")), ["drain-unknown"]);
    assert.deepEqual(decided(on, answered(on, "not-asked")), ["drain-not-asked"]);
    assert.deepEqual(decided(on, answered(on, "good")), [word === undefined ? "prove db-a-2" : "protect db-a-2"]);
    assert.equal(
      decideOn(on, answered(on, "bad")).requeueAfterMs,
      10_000,
      "the application sends no event when its answer changes",
    );
  }
  const asked = Suspended.of(["a"], 3, { "suspend-duration": "1h", "drain-url": "http://:80/drained/{pod}" });
  asked.annotate("a", 2, { suspend: "true" });
  const [member] = answered(asked, "good").members?.slice(2) ?? [];
  const decision = member && decideMember(member, now, true);
  assert.deepEqual(
    [decision?.guard, decision?.message],
    ["drained", "db-a-0 says that the data of db-a-2 is not needed"],
  );
});

test("drain-refused: a bad answer keeps a protected pod; once the pod has gone, its volume's time runs on", () => {
  const on = suspending(["a"]);
  on.policy("a", { "drain-url": "http://:80/drained/{pod}" });
  assert.deepEqual(decided(on, answered(on, "bad")), ["drain-refused"]);
  assert.deepEqual(decided(on, answered(on, "good")), ["db-a to 2"]);
  on.suspend("a", 2, 10, "Suspending");
  assert.deepEqual(
    decided(on, answered(on, "bad")),
    ["stamp db-a-2"],
    "the pod has gone, and the time of its volume runs",
  );
  on.annotate("a", 2, { "drained-at": undefined });
  assert.deepEqual(decided(on, answered(on, "bad")), ["drain-refused"]);
  on.suspend("a", 2, 10);
  assert.deepEqual(decided(on, answered(on, "not-asked")), []);
});

test("drain-question-malformed: a question that names no pod, has a host, or is missing beside its field blocks every suspension", () => {
  const wrong = [
    { "drain-url": "http://:80/drained" },
    { "drain-url": "http://other:80/{pod}" },
    { "drain-field": "drained=true" },
    { "drain-url": "http://:80/{pod}", "drain-field": "drained" },
    { "drain-url": "http://:80/{pod}", "drain-secret": "../x" },
    { "drain-url": "https://:443/{pod}", "drain-authority": "ca" },
    { "drain-authority": "secret/ca" },
    { "drain-witnesses": "1" },
  ];
  for (const described of wrong) {
    const on = Suspended.of(["a"], 3, { "suspend-duration": "1h", ...described });
    on.ask("a", 2);
    assert.deepEqual(decided(on, answered(on, "good")), ["drain-question-malformed"], JSON.stringify(described));
  }
});
