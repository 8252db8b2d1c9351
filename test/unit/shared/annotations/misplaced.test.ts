import assert from "node:assert/strict";
import { test } from "node:test";
import { findMisplaced } from "../../../../functions/shared/annotations/misplaced.ts";
import { type Annotation, annotationTable } from "../../../../functions/shared/annotations/table.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";

const found = (places: { labels?: Record<string, string>; annotations?: Record<string, string> }) =>
  findMisplaced(statefulSetObject("a", { metadata: { labels: {}, annotations: {}, ...places } }).metadata);

test("the warning about a time between zones in an annotation, as in Tempo's chart, says where it belongs and what counts until then", () => {
  const annotations = { "grafana.com/min-time-between-zones-downscale": "15m" };
  assert.deepEqual(found({ annotations }), [
    {
      key: "grafana.com/min-time-between-zones-downscale",
      misplaced: "15m",
      message:
        'annotation grafana.com/min-time-between-zones-downscale is "15m", but Sluice reads this key only as label: ' +
        "move it there. Until then: the webhook prepare-downscale keeps no time after this zone, and a follower stays " +
        "as large as it is after another zone.",
    },
  ]);
});

test("an annotation that is set as a label is reported, and its value does not count", () => {
  const object = statefulSetObject("a", { metadata: { labels: { "rollout-max-unavailable": "5" } } });
  const { maxUnavailable, malformed } = parseStatefulSet(object);
  assert.equal(maxUnavailable, 1);
  assert.equal(
    malformed[0]?.message,
    'label rollout-max-unavailable is "5", but Sluice reads this key only as annotation: move it there. Until then: 1.',
  );
});

test("each label and annotation of StatefulSets is found in the wrong place, and never reported in its own", () => {
  const entries: readonly Annotation<unknown>[] = annotationTable;
  const ofUsers = entries.filter(({ on, isLong }) => on === "StatefulSet" && isLong !== true);
  assert.ok(ofUsers.length > 30);
  for (const { key, kind } of ofUsers) {
    const right = kind === "label" ? "labels" : "annotations";
    const wrong = kind === "label" ? "annotations" : "labels";
    assert.deepEqual(
      found({ [wrong]: { [key]: "true" } }).map((one) => one.key),
      [key],
    );
    assert.deepEqual(found({ [right]: { [key]: "true" } }), [], key);
    assert.deepEqual(found({ [right]: { [key]: "true" }, [wrong]: { [key]: "other" } }), [], `${key} in both places`);
  }
});

test("keys of others, of other objects, of kubectl and of Sluice itself are never reported", () => {
  const others = {
    "app.kubernetes.io/name": "a",
    "controller-revision-hash": "a-1",
    "statefulset.kubernetes.io/pod-name": "a-0",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "sluice.dev/suspend": "true",
    "sluice.dev/protect-volumes": "true",
  };
  assert.deepEqual(found({ labels: others, annotations: others }), []);
  assert.deepEqual(found({ labels: others }), []);
  assert.deepEqual(found({ annotations: others }), []);
});

test("the message shows no part of a misplaced value that may hold a secret", () => {
  const [one] = found({ labels: { "sluice.dev/health-url": "http-user-geheim" } });
  assert.match(one?.message ?? "", /^label sluice.dev\/health-url is /);
  assert.doesNotMatch(one?.message ?? "", /geheim/);
});
