/** A watch reports whole pods, and a LIST keeps a part of each: a decision must read the same from both. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseGroupPod } from "../../functions/hold-process-groups/foundation-cluster.ts";
import type { PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { KeptPods } from "../../functions/shared/kubernetes/trim-pod.ts";
import { isOperator } from "../../functions/shared/standby/decide-other-operator.ts";
import { parseVolumeUser } from "../../functions/shared/volumes/members.ts";
import { containerIdsOf, parsePod } from "../../functions/shared/workloads/pods.ts";

/** Few values each, so that neighbours are often equal, or nearly so. */
const one = <T>(...values: readonly T[]) => fc.constantFrom(...values);
const time = one("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:01:00Z");
const text = one("a", "b", "constructor", "web-0", "rollout-operator", "");
const texts = fc.dictionary(one("zone", "role", "name", "constructor", "statefulset.kubernetes.io/pod-name"), text, {
  noNullPrototype: true,
});
const some = <T extends Record<string, fc.Arbitrary<unknown>>>(fields: T) =>
  fc.record(fields, { requiredKeys: [], noNullPrototype: true });

const state = one(
  undefined,
  {},
  { running: { startedAt: "2026-01-01T00:00:00Z" } },
  { terminated: { exitCode: 1, reason: "Error" } },
  { waiting: {} },
  { waiting: { reason: "CrashLoopBackOff", message: "back-off" } },
  { waiting: { reason: "ContainerCreating" } },
);
const containers = fc.array(
  some({
    ...{ name: text, containerID: one("containerd://a", "containerd://b"), ready: fc.boolean() },
    ...{ restartCount: fc.nat(3), state, image: one("app:1"), lastState: state },
  }),
  { maxLength: 3 },
);
const specified = fc.array(some({ name: text, image: one("app:1", "grafana/rollout-operator:v1") }), { maxLength: 2 });
const tolerations = fc.array(
  some({
    ...{ key: one("not-ready", "fence"), operator: one("Exists", "Equal"), value: text, effect: one("NoExecute", "") },
    tolerationSeconds: one(0, 300),
  }),
  { maxLength: 3 },
);
const condition = fc.record({
  type: one("Ready", "ContainersReady", "DisruptionTarget"),
  status: one("True", "False", "Unknown"),
  lastTransitionTime: time,
  lastProbeTime: fc.constant(null),
});
const owner = fc.record({
  ...{ apiVersion: one("apps/v1", "v1"), kind: one("StatefulSet", "Job"), name: text, uid: text },
  ...{ controller: one(true, false), blockOwnerDeletion: fc.boolean() },
});
const volume = one<object>(
  { name: "data", persistentVolumeClaim: { claimName: "data-web-0" } },
  { name: "more", persistentVolumeClaim: { claimName: "more-web-0", readOnly: true } },
  { name: "config", configMap: { name: "config" } },
);
const pod = fc
  .tuple(
    fc.record(
      {
        ...{ name: one("web-0", "web-1", "bare"), uid: text, resourceVersion: one("1", "2"), generateName: text },
        ...{ namespace: one("db", "other"), generation: fc.nat(2), creationTimestamp: time, deletionTimestamp: time },
        ...{ labels: texts, annotations: texts, finalizers: fc.array(text, { maxLength: 2 }) },
        ownerReferences: fc.array(owner, { maxLength: 2 }),
      },
      { requiredKeys: ["name", "uid", "resourceVersion"], noNullPrototype: true },
    ),
    some({
      ...{ volumes: fc.array(volume, { maxLength: 3 }), nodeName: text },
      ...{ containers: specified, initContainers: specified, tolerations },
    }),
    some({
      ...{ phase: one("Pending", "Running", "Succeeded", "Failed"), startTime: time, podIP: text },
      ...{ conditions: fc.array(condition, { maxLength: 3 }), containerStatuses: containers },
      initContainerStatuses: containers,
    }),
  )
  .map(([metadata, spec, status]) => ({ metadata, spec, status }) as unknown as PodObject);

/** Everything that Sluice reads of a listed pod, and the compared fields of containers. */
const read = (object: PodObject) => ({
  pod: parsePod(object),
  volumeUser: parseVolumeUser(object),
  groupPod: parseGroupPod(object, "group"),
  operates: isOperator(object),
  bound: object.spec?.nodeName,
  tolerates: object.spec?.tolerations?.map(({ key, operator, value, effect, tolerationSeconds }) => {
    return [key, operator, value, effect, tolerationSeconds];
  }),
  containerIds: containerIdsOf(object),
  restarts: object.status?.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]),
});

test("a pod is read the same from a list as from a watch, whatever pods are listed before it", () => {
  fc.assert(
    fc.property(fc.array(pod, { maxLength: 6 }), (pods) => {
      const sent = JSON.stringify(pods);
      const watched: readonly PodObject[] = JSON.parse(sent);
      const listed: readonly PodObject[] = JSON.parse(sent);
      const kept = new KeptPods();
      assert.deepEqual(
        listed.map((object) => read(kept.keep(object))),
        watched.map(read),
      );
    }),
    { numRuns: 3_000 },
  );
});
