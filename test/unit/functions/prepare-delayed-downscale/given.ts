/** A StatefulSet with a delay and its pods, as a decision reads them. */

import type { DelaySnapshot } from "../../../../functions/prepare-delayed-downscale/decide.ts";
import type { DelayedSet, PrepareAnswer } from "../../../../functions/prepare-delayed-downscale/decide-leaving.ts";
import { surveyZone } from "../../../../functions/shared/groups/zones.ts";
import { type Pod, parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet, type StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";

export const nowMs = Date.parse("2026-01-31T12:00:00Z");
export const hourMs = 3_600_000;

export const delayAnnotations = {
  "grafana.com/rollout-delayed-downscale": "1h",
  "grafana.com/rollout-prepare-delayed-downscale-url": "http://pod:8080/ingester/prepare",
  "grafana.com/rollout-mirror-replicas-from-resource-name": "ingester",
  "grafana.com/rollout-mirror-replicas-from-resource-kind": "ReplicaTemplate",
  "grafana.com/rollout-mirror-replicas-from-resource-api-version": "rollout-operator.grafana.com/v1",
};

export interface Given {
  readonly name?: string;
  readonly replicas?: number;
  readonly wanted?: number;
  readonly postponed?: DelayedSet["postponed"];
  readonly start?: number;
  /**
   * By ordinal: how long ago the pod was told, by its own account, in milliseconds; or why the call failed; absent: it was not
   * asked.
   */
  readonly notified?: Readonly<Record<number, number | string>>;
  /** Ordinals without a pod. */
  readonly gone?: readonly number[];
  /** By ordinal: age of the pod in milliseconds; absent: a day. */
  readonly madeMs?: Readonly<Record<number, number>>;
}

export function statefulSetOf({ name = "db-a", replicas = 10, start = 0 }: Given): StatefulSet {
  return parseStatefulSet({
    metadata: {
      name,
      namespace: "ns",
      uid: `uid of ${name}`,
      resourceVersion: "1",
      labels: { "rollout-group": "db" },
      annotations: delayAnnotations,
    },
    spec: { replicas, serviceName: "db", ordinals: { start }, selector: { matchLabels: { name } } },
  });
}

export function podOf(statefulSet: StatefulSet, ordinal: number, madeMs = 24 * hourMs): Pod {
  const name = `${statefulSet.name}-${ordinal}`;
  const ready = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
  return parsePod({
    metadata: {
      name,
      namespace: "ns",
      uid: `uid of ${name}`,
      resourceVersion: "1",
      creationTimestamp: new Date(nowMs - madeMs).toISOString(),
      ownerReferences: [
        { apiVersion: "apps/v1", kind: "StatefulSet", name: statefulSet.name, uid: statefulSet.uid, controller: true },
      ],
    },
    status: { phase: "Running", conditions: [ready] },
  });
}

export function delayedOf(given: Given = {}): DelayedSet {
  const { replicas = 10, wanted = 4, start = 0, notified = {}, gone = [], madeMs = {} } = given;
  const statefulSet = statefulSetOf(given);
  const pods = Array.from({ length: replicas }, (_, index) => start + index)
    .filter((ordinal) => !gone.includes(ordinal))
    .map((ordinal) => podOf(statefulSet, ordinal, madeMs[ordinal]));
  const answers = Object.entries(notified).map(([ordinal, reported]): [string, PrepareAnswer] => [
    `uid of ${statefulSet.name}-${ordinal}`,
    typeof reported === "number" ? { kind: "prepared", sinceMs: nowMs - reported } : { kind: "failed", why: reported },
  ]);
  return {
    statefulSet,
    delayMs: hourMs,
    wanted,
    postponed: given.postponed,
    pods: new Map(pods.map((pod) => [pod.ordinal, pod])),
    isClaimed: () => false,
    answers: new Map(answers),
  };
}

export function snapshotOf(delayed: DelaySnapshot["delayed"], changes: Partial<DelaySnapshot> = {}): DelaySnapshot {
  const zones = delayed.map((one) =>
    surveyZone(one.statefulSet, "pods" in one ? one.pods.values() : [], [], nowMs, changes.claims ?? []),
  );
  const nothing = { departed: [], strayClaims: [], claims: [], refused: new Map(), shadow: false };
  return { group: "db", nowMs, askedAtMs: nowMs, zones, delayed, ...nothing, ...changes };
}
