import assert from "node:assert/strict";
import { test } from "node:test";
import { isWanted, parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { statefulSet, statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";

function allowed(text: string | undefined, replicas: number): number {
  const annotations = text === undefined ? {} : { "rollout-max-unavailable": text };
  return parseStatefulSet(statefulSetObject("a", { metadata: { annotations }, spec: { replicas } })).maxUnavailable;
}

test("a percentage of spec.replicas is rounded down, and is at least one pod", () => {
  assert.equal(allowed("25%", 10), 2);
  assert.equal(allowed("29%", 10), 2);
  assert.equal(allowed("30%", 10), 3);
  assert.equal(allowed("1%", 10), 1);
  assert.equal(allowed("50%", 1), 1);
  assert.equal(allowed("50%", 0), 1);
  assert.equal(allowed("100%", 7), 7);
  assert.equal(allowed("33%", 300), 99);
});

test("a number of pods is taken as it is, even beyond the replicas", () => {
  assert.equal(allowed("3", 10), 3);
  assert.equal(allowed("30", 10), 30);
});

test("an absent or malformed budget is one pod, and only a malformed one causes a warning", () => {
  for (const text of [undefined, "0", "-3", "101%", "5 %", "", "all"]) assert.equal(allowed(text, 10), 1);
  const warned = parseStatefulSet(
    statefulSetObject("a", { metadata: { annotations: { "rollout-max-unavailable": "0" } } }),
  );
  assert.deepEqual(
    warned.malformed.map(({ key }) => key),
    ["rollout-max-unavailable"],
  );
  assert.deepEqual(parseStatefulSet(statefulSetObject("a")).malformed, []);
});

test("only exactly true pauses, and any other value causes a warning", () => {
  const parse = (text: string) =>
    parseStatefulSet(statefulSetObject("a", { metadata: { annotations: { "grafana.com/rollout-paused": text } } }));
  assert.equal(parse("true").paused, true);
  assert.equal(parse("false").paused, false);
  assert.equal(parse("True").paused, false);
  assert.equal(parse("True").malformed.length, 1);
  assert.equal(parseStatefulSet(statefulSetObject("a")).paused, false);
});

test("a status that is behind the spec does not give the wanted revision (R5)", () => {
  const parse = (generation: number, observedGeneration?: number) =>
    parseStatefulSet(
      statefulSetObject("a", {
        metadata: { generation },
        status: {
          currentRevision: "old",
          updateRevision: "new",
          ...(observedGeneration ? { observedGeneration } : {}),
        },
      }),
    ).updateRevision;
  assert.equal(parse(2, 2), "new");
  assert.equal(parse(3, 2), undefined);
  const unseen = statefulSetObject("a", { metadata: { generation: 1 } });
  assert.equal(parseStatefulSet({ ...unseen, status: { updateRevision: "new" } }).updateRevision, undefined);
  assert.equal(parseStatefulSet({ ...unseen, status: {} }).updateRevision, undefined);
});

test("an empty revision is no revision", () => {
  const { updateRevision, currentRevision } = parseStatefulSet(
    statefulSetObject("a", { status: { observedGeneration: 2, updateRevision: "", currentRevision: "" } }),
  );
  assert.equal(updateRevision, undefined);
  assert.equal(currentRevision, undefined);
});

test("a StatefulSet that is being deleted wants no pods", () => {
  const leaving = parseStatefulSet(
    statefulSetObject("a", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" }, spec: { replicas: 5 } }),
  );
  assert.equal(leaving.replicas, 0);
  assert.equal(isWanted(leaving, 0), false);
});

test("the wanted ordinals begin at ordinals.start", () => {
  const shifted = parseStatefulSet(statefulSetObject("a", { spec: { replicas: 3, ordinals: { start: 10 } } }));
  const wanted = [9, 10, 12, 13, 0, -1].map((ordinal) => isWanted(shifted, ordinal));
  assert.deepEqual(wanted, [false, true, true, false, false, false]);
  assert.deepEqual(
    [-1, 0, 2, 3].map((ordinal) => isWanted(statefulSet("a"), ordinal)),
    [false, true, true, false],
  );
});

test("the defaults of a bare StatefulSet are those of Kubernetes", () => {
  const { metadata } = statefulSetObject("a", { metadata: { generation: 0, labels: {} } });
  const bare = parseStatefulSet({ metadata });
  assert.equal(bare.group, undefined);
  assert.equal(bare.replicas, 1);
  assert.equal(bare.start, 0);
  assert.equal(bare.minReadySeconds, 0);
  assert.equal(bare.strategy, "RollingUpdate");
  assert.equal(bare.maxUnavailable, 1);
  assert.equal(bare.paused, false);
  assert.equal(bare.updateRevision, undefined);
  assert.deepEqual(bare.matchLabels, {});
});

test("the empty rollout-group is a group, and an absent one is none", () => {
  const parse = (labels: Record<string, string>) =>
    parseStatefulSet(statefulSetObject("a", { metadata: { labels } })).group;
  assert.equal(parse({ "rollout-group": "" }), "");
  assert.equal(parse({ "rollout-group": "x" }), "x");
  assert.equal(parse({}), undefined);
});
