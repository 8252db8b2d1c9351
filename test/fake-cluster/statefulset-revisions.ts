/** What the StatefulSet controller makes of templates: revisions, and pods with a revision. */

import type { ClaimTemplate, PodTemplate, StoredPod, StoredStatefulSet } from "./objects.ts";
import { nameAlphabet } from "./random.ts";

export const revisionLabel = "controller-revision-hash";
export const podNameLabel = "statefulset.kubernetes.io/pod-name";
export const podIndexLabel = "apps.kubernetes.io/pod-index";

const hashes = new WeakMap<PodTemplate, string>();

/** The name of the revision of a set's current template: equal templates have equal names, whatever the order of their keys. */
export function revisionName(set: StoredStatefulSet): string {
  const { template } = set.spec;
  let hash = hashes.get(template);
  if (hash === undefined) {
    hash = hashOf(template);
    hashes.set(template, hash);
  }
  return `${set.metadata.name}-${hash}`;
}

/** FNV-1a of 32 bits, with its decimal digits spelt in the alphabet of generated names, as the real controller does. */
function hashOf(template: PodTemplate): string {
  let hash = 0x811c9dc5;
  const text = canonicalJson(template);
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  let name = "";
  for (const digit of String(hash >>> 0)) name += nameAlphabet[digit.charCodeAt(0) % nameAlphabet.length];
  return name;
}

function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const fields = value as Readonly<Record<string, unknown>>;
  const keys = Object.keys(fields).filter((key) => fields[key] !== undefined);
  return `{${keys.sort().map((key) => `${JSON.stringify(key)}:${canonicalJson(fields[key])}`)}}`;
}

/**
 * The ordinal in a pod's name if it has the form of this set's pods; -1 otherwise. Does not use the product's code, so that
 * the fake cluster is right where the product's grammar is wrong.
 */
export function ordinalOf(set: StoredStatefulSet, podName: string): number {
  const { name } = set.metadata;
  if (podName.length <= name.length + 1 || podName.charCodeAt(name.length) !== 45 || !podName.startsWith(name))
    return -1;
  let ordinal = 0;
  for (let index = name.length + 1; index < podName.length; index++) {
    const digit = podName.charCodeAt(index) - 48;
    if (digit < 0 || digit > 9) return -1;
    ordinal = ordinal * 10 + digit;
  }
  return ordinal;
}

export function revisionOf(pod: StoredPod): string | undefined {
  return pod.metadata.labels?.[revisionLabel];
}

/** The pod that the controller creates for an ordinal. */
export function podOf(
  set: StoredStatefulSet,
  template: PodTemplate,
  revision: string,
  ordinal: number,
  nodeName: string | undefined,
): object {
  const name = `${set.metadata.name}-${ordinal}`;
  const { labels, annotations, finalizers } = template.metadata ?? {};
  const volumes = volumesOf(set, ordinal);
  return {
    metadata: {
      name,
      generateName: `${set.metadata.name}-`,
      labels: { ...labels, [podIndexLabel]: String(ordinal), [revisionLabel]: revision, [podNameLabel]: name },
      ...(annotations === undefined ? undefined : { annotations }),
      ...(finalizers === undefined ? undefined : { finalizers }),
      ownerReferences: [controllerReference(set)],
    },
    spec: {
      ...template.spec,
      hostname: name,
      ...(set.spec.serviceName === undefined ? undefined : { subdomain: set.spec.serviceName }),
      ...(nodeName === undefined ? undefined : { nodeName }),
      ...(volumes.length === 0 ? undefined : { volumes: [...volumes, ...(template.spec.volumes ?? [])] }),
    },
  };
}

/** The reference to the controlling set on a pod. */
export function controllerReference(set: StoredStatefulSet): object {
  const { name, uid } = set.metadata;
  return { apiVersion: "apps/v1", kind: "StatefulSet", name, uid, controller: true, blockOwnerDeletion: true };
}

export function claimTemplatesOf(set: StoredStatefulSet): readonly ClaimTemplate[] {
  return set.spec.volumeClaimTemplates ?? [];
}

/** Name of the claim that a template makes for an ordinal. */
export function claimName(set: StoredStatefulSet, template: ClaimTemplate, ordinal: number): string {
  return `${template.metadata.name}-${set.metadata.name}-${ordinal}`;
}

/** The volumes of an ordinal's pod that come from the set's claim templates. */
function volumesOf(set: StoredStatefulSet, ordinal: number): readonly object[] {
  return claimTemplatesOf(set).map((template) => {
    return { name: template.metadata.name, persistentVolumeClaim: { claimName: claimName(set, template, ordinal) } };
  });
}
