import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { PodObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  decideStandBy,
  describePod,
  goneForMs,
  isOperator,
  listAgainMs,
  listEveryMs,
  noteListed,
  type SeenOperator,
  staleAfterMs,
  unseen,
} from "../../../../functions/shared/standby/decide-other-operator.ts";

const image = "grafana/rollout-operator:v0.40.0";

function pod(labels: Record<string, string>, spec: PodObject["spec"] = { containers: [{ image }] }, phase = "Running") {
  return { metadata: { name: "operator", uid: "1", labels }, spec, status: { phase } } as unknown as PodObject;
}

test("a pod of the operator has one of its two labels and its image, and has not ended", () => {
  const byChart = { "app.kubernetes.io/name": "rollout-operator" };
  const byJsonnet = { name: "rollout-operator" };
  const table: readonly [string, PodObject, boolean][] = [
    ["label of the chart", pod(byChart), true],
    ["label of the manifests", pod(byJsonnet), true],
    ["no label", pod({}), false],
    ["another key", pod({ app: "rollout-operator" }), false],
    ["another value", pod({ name: "rollout-operator-2" }), false],
    ["pending", pod(byChart, undefined, "Pending"), true],
    ["unknown to its node", pod(byChart, undefined, "Unknown"), true],
    ["succeeded", pod(byChart, undefined, "Succeeded"), false],
    ["failed", pod(byChart, undefined, "Failed"), false],
    ["no status", { ...pod(byChart), status: {} }, true],
    ["Sluice under its label", pod(byChart, { containers: [{ image: "registry/sluice:1" }] }), false],
    ["a second container", pod(byChart, { containers: [{ image: "proxy:1" }, { image }] }), true],
    ["a container that starts first", pod(byChart, { containers: [{}], initContainers: [{ image }] }), true],
    ["no containers", pod(byChart, {}), false],
  ];
  for (const [about, object, expected] of table) assert.equal(isOperator(object), expected, about);
});

test("an image counts by the last part of its path, without registry, port, tag and digest", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  const table: Readonly<Record<string, boolean>> = {
    "rollout-operator": true,
    "rollout-operator:v1": true,
    [`host:5000/x/rollout-operator:v1@${digest}`]: true,
    [`host:5000/rollout-operator@${digest}`]: true,
    "host:5000/rollout-operator": true,
    "rollout-operator:5000/sluice": false,
    "rollout-operator/sluice": false,
    "grafana/rollout-operator-boringcrypto:v1": false,
    "my-rollout-operator": false,
    "": false,
  };
  for (const [text, expected] of Object.entries(table))
    assert.equal(isOperator(pod({ name: "rollout-operator" }, { containers: [{ image: text }] })), expected, text);
});

const running = (name: string, endsAt?: string) => ({ name, endsAt });
const one = [running("operator-1")];

const decided = (seen: SeenOperator, ageMs: number | "never" = 0, failure?: { message: string; right?: boolean }) =>
  decideStandBy({
    namespace: "mimir",
    seen,
    ageMs: ageMs === "never" ? undefined : ageMs,
    nextMs: ageMs === "never" ? 0 : listEveryMs - ageMs,
    failure: failure && { message: failure.message, isRightMissing: failure.right === true },
  });

test("a namespace without the operator is free at its first LIST", () => {
  assert.equal(decided(noteListed(unseen, [], 0)), undefined);
});

test("a pod that runs holds its namespace until the next LIST, and the message names both, and what to do", () => {
  const stands = decided(noteListed(unseen, one, 0), 10_000);
  assert.equal(stands?.guard, "other-operator");
  assert.match(
    stands.message,
    /runs as pod mimir\/operator-1, .*that pod has been gone for 30 s.*OTHER_OPERATOR=ignore/,
  );
  assert.equal(stands.requeueAfterMs, listEveryMs - 10_000);
  assert.equal(stands.identity, "operator-1");
});

test("of several pods the message counts the others, and each pod is counted once", () => {
  const pods = [running("operator-2"), running("operator-1"), running("operator-1")];
  const stands = decided(noteListed(unseen, pods, 0));
  assert.match(
    stands?.message ?? "",
    /pod mimir\/operator-1 and 1 more, .*when the last of them has been gone for 30 s/,
  );
});

test("pods are named in the order of their names, in whatever order LISTs show them", () => {
  for (const order of [
    ["c", "a", "b"],
    ["b", "c", "a"],
    ["a", "b", "c"],
  ])
    assert.deepEqual(
      noteListed(
        unseen,
        order.map((name) => running(name)),
        0,
      ).running.map(({ name }) => name),
      ["a", "b", "c"],
    );
});

test("a wait ends at the first whole millisecond after the next LIST is due, and never at once", () => {
  const seen = noteListed(unseen, one, 0);
  const after = (nextMs: number) =>
    decideStandBy({ namespace: "mimir", seen, ageMs: 0, nextMs, failure: undefined })?.requeueAfterMs;
  assert.deepEqual([after(1_500.2), after(1_500), after(0), after(-20)], [1_501, 1_500, 1, 1]);
});

test("a pod that is stuck on a lost node is named with what to do, unless another one still runs", () => {
  const stuck = running("operator-1", "2026-11-27T04:00:30Z");
  const stands = decided(noteListed(unseen, [stuck], 0));
  assert.match(
    stands?.message ?? "",
    /^pod mimir\/operator-1 of .* is being deleted, and must have ended at 2026-11-27T04:00:30Z: .* by force$/,
  );
  assert.equal(stands?.identity, "operator-1 terminating", "an Event of its own says so");
  assert.equal(decided(noteListed(unseen, [stuck, running("operator-2")], 0))?.identity, "operator-2");
});

test("messages describe a pod by its object, which need not have a status", () => {
  const metadata = { name: "operator", uid: "1", labels: { name: "rollout-operator" } };
  const bare = { metadata, spec: { containers: [{ image }] } } as unknown as PodObject;
  assert.equal(isOperator(bare), true);
  assert.deepEqual(describePod(bare), running("operator"));
  const leaving = { ...bare, metadata: { ...metadata, deletionTimestamp: "2026-11-27T04:00:30Z" } };
  assert.deepEqual(describePod(leaving as unknown as PodObject), running("operator", "2026-11-27T04:00:30Z"));
});

test("30 s after the first LIST without a pod a LIST must say so again, and only then is the namespace free", () => {
  const gone = noteListed(noteListed(unseen, one, 0), [], 30_000);
  assert.match(decided(gone)?.message ?? "", /mimir\/operator-1 .*is gone/);
  assert.equal(decided(gone)?.identity, undefined, "it passes within seconds");
  assert.notEqual(decided(gone, listEveryMs + 1), undefined, "time alone frees nothing");
  assert.notEqual(decided(noteListed(gone, [], 30_000 + goneForMs - 1)), undefined);
  assert.equal(decided(noteListed(gone, [], 30_000 + goneForMs)), undefined);
});

test("a pod that comes back within the 30 s begins them anew", () => {
  const back = noteListed(noteListed(noteListed(unseen, one, 0), [], 10_000), [running("two")], 20_000);
  const gone = noteListed(back, [], 30_000);
  assert.deepEqual(gone.gone, { pod: "two", sinceMs: 30_000 });
  assert.notEqual(decided(noteListed(gone, [], 59_999)), undefined);
});

test("before a first LIST nothing is free, nor once the last one is a minute old, and the message has the cause", () => {
  for (const ageMs of ["never", staleAfterMs] as const) {
    const stands = decided(unseen, ageMs, { message: "the API server is away" });
    assert.equal(stands?.guard, "other-operator");
    assert.match(stands.message, /in mimir is unknown.*: the API server is away$/);
    assert.equal(stands.requeueAfterMs, listAgainMs);
    assert.equal(stands.identity, undefined);
  }
  assert.notEqual(decided(unseen, "never"), undefined);
});

test("where no LIST has failed the message has the age of the last one, and a wait for all namespaces names none", () => {
  assert.match(decided(unseen, staleAfterMs + 900)?.message ?? "", /: the last LIST is 60 s old$/);
  assert.match(decided(unseen, "never")?.message ?? "", /: no LIST has been answered yet$/);
  const anywhere = decideStandBy({ namespace: "", seen: unseen, ageMs: undefined, nextMs: 0, failure: undefined });
  assert.match(anywhere?.message ?? "", /runs in any namespace is unknown/);
});

test("one LIST that fails holds nothing that the one before it showed free", () => {
  assert.equal(decided(unseen, staleAfterMs - 1, { message: "time-out" }), undefined);
});

test("a missing right is told in an Event, and is asked for no more often than the pods are listed", () => {
  const stands = decided(unseen, "never", { message: "Sluice lacks the right to list pods", right: true });
  assert.match(stands?.message ?? "", /lacks the right to list pods/);
  assert.deepEqual([stands?.requeueAfterMs, stands?.identity], [listEveryMs, "unlisted"]);
});

test("whatever LISTs show: a namespace is free only if none of the last 30 s showed a pod, the newest one included", () => {
  const list = fc.record({ afterMs: fc.integer({ min: 1, max: 40_000 }), runs: fc.boolean() });
  fc.assert(
    fc.property(fc.array(list, { minLength: 1, maxLength: 12 }), (lists) => {
      let seen = unseen;
      let nowMs = 0;
      let lastRunMs = Number.NEGATIVE_INFINITY;
      for (const { afterMs, runs } of lists) {
        nowMs += afterMs;
        if (runs) lastRunMs = nowMs;
        seen = noteListed(seen, runs ? one : [], nowMs);
        const isFree = decided(seen) === undefined;
        if (isFree) assert.ok(nowMs - lastRunMs > goneForMs);
      }
      // It does not last for ever either: two LISTs without a pod, 30 s apart, are enough.
      seen = noteListed(noteListed(seen, [], nowMs + 1), [], nowMs + 1 + goneForMs);
      assert.equal(decided(seen), undefined);
    }),
  );
});
