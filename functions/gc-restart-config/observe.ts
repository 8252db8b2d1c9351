/** What is read: the Secrets that StatefulSets of a group expect, or have expected, and what names Secrets in the namespace. */

import { collectedConfig, type NamedConfig } from "../shared/annotations/restart-files.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import { type Cluster, hasCode, lackOf, type ObjectKey } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { isStatefulSet } from "../shared/workloads/statefulsets.ts";
import { type ConfigSnapshot, mayBeDue, type ReadConfig } from "./decide.ts";

export const name = "gc-restart-config";

/** So many GETs are sent at once. */
const readAtOnce = 8;

/** By reads that are made after the ledger was read. Throws ClusterError. */
export async function observe(observed: GroupObservation, { cluster }: Context): Promise<ConfigSnapshot> {
  const { key, ledger, nowMs, zones } = observed;
  const { namespace } = key;
  const known: ReadonlyMap<string, NamedConfig> = ledger.namedConfigs ?? new Map();
  const expected = zones.flatMap(({ workload }) =>
    isStatefulSet(workload) ? (workload.restart?.files?.expected ?? []) : [],
  );
  const names = [...new Set([...known.keys(), ...expected])];
  const secrets = await mapLimit(names, readAtOnce, (one) => readConfig(cluster, { namespace, name: one }));
  const read = new Map(names.map((one, index): [string, ReadConfig] => [one, secrets[index] ?? { kind: "missing" }]));
  const named = new Set(await namedBySets(cluster, namespace));
  const isNear = [...known].some(([one, config]) => !named.has(one) && mayBeDue(config, nowMs));
  if (isNear) for (const one of await namedByPods(cluster, namespace)) named.add(one);
  const isRestarting = ledger.claims.some(({ kind }) => kind === "process");
  return { nowMs, known, read, named, isRestarting };
}

/** Throws ClusterError, but for a right that is missing. */
export async function readConfig(cluster: Cluster, key: ObjectKey): Promise<ReadConfig> {
  try {
    const object = await find(cluster, "secrets", key);
    if (object === undefined) return { kind: "missing" };
    const { uid, resourceVersion, labels } = object.metadata;
    return { kind: "there", uid, resourceVersion, isLabelled: labels?.[collectedConfig.key] !== undefined };
  } catch (error) {
    if (!hasCode(error, 403)) throw error;
    return { kind: "forbidden", message: `${lackOf(error)}; write a Role with get and delete on ${key.name}` };
  }
}

/** Every Secret that a StatefulSet of the namespace names, in its template or as a whole annotation. Throws ClusterError. */
export async function namedBySets(cluster: Cluster, namespace: string): Promise<ReadonlySet<string>> {
  const { items } = await cluster.list("statefulsets", { namespace });
  const names = items.flatMap(({ metadata, spec }) => [
    ...Object.values(metadata.annotations ?? {}),
    ...secretsIn(spec?.template?.spec),
  ]);
  return new Set(names);
}

/** The same of pods. A list shows only their volume claims, so that each is read by itself. Throws ClusterError. */
async function namedByPods(cluster: Cluster, namespace: string): Promise<readonly string[]> {
  const { items } = await cluster.list("pods", { namespace, metadataOnly: true });
  const names = await mapLimit(items, readAtOnce, async ({ metadata }) => {
    const pod = await find(cluster, "pods", { namespace, name: metadata.name });
    return secretsIn(pod?.spec);
  });
  return names.flat();
}

/** The names of Secrets in the spec of a pod: `secretName`, and `name` below a field that is about Secrets. */
export function secretsIn(value: unknown, isSecret = false): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((one) => secretsIn(one, isSecret));
  const fields = Object.entries(fieldsOf(value) ?? {});
  return fields.flatMap(([field, one]) => {
    const isAbout = /secret/i.test(field);
    if (typeof one === "string") return isAbout || (isSecret && field === "name") ? [one] : [];
    return secretsIn(one, isAbout);
  });
}
