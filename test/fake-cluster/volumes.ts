/** Volumes and their claims, with the fields that the fake cluster reads. */

import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject } from "./objects.ts";

/** The finalizer of every volume, which keeps it while a claim is bound to it. */
export const volumeProtection = "kubernetes.io/pv-protection";

export interface Claim extends StoredObject {
  readonly spec?: {
    readonly volumeName?: string;
    readonly storageClassName?: string;
    readonly volumeMode?: string;
    readonly accessModes?: readonly string[];
    readonly resources?: { readonly requests?: { readonly storage?: string } };
  };
  readonly status?: { readonly phase?: string };
}

export interface Volume extends StoredObject {
  readonly spec?: {
    readonly capacity?: { readonly storage?: string };
    readonly storageClassName?: string;
    readonly volumeMode?: string;
    readonly accessModes?: readonly string[];
    readonly persistentVolumeReclaimPolicy?: string;
    readonly claimRef?: { readonly namespace?: string; readonly name?: string; readonly uid?: string };
  };
  readonly status?: { readonly phase?: string };
}

/** The claim of a volume. It has no uid if a user has named it and it is not bound yet. */
export function claimRefOf({ spec }: Volume): (ObjectKey & { readonly uid?: string }) | undefined {
  const { namespace = "", name, uid } = spec?.claimRef ?? {};
  if (name === undefined) return undefined;
  return { namespace, name, ...(uid === undefined ? undefined : { uid }) };
}

/** True if the volume is for this claim: by uid, or by name if the volume names no uid. */
export function isBoundTo(volume: Volume, { metadata }: Claim): boolean {
  const reference = claimRefOf(volume);
  if (reference?.name !== metadata.name || reference.namespace !== metadata.namespace) return false;
  return reference.uid === undefined || reference.uid === metadata.uid;
}

const factors: Readonly<Record<string, number>> = {
  "": 1,
  ...Object.fromEntries(["k", "M", "G", "T", "P"].map((unit, index) => [unit, 1000 ** (index + 1)])),
  ...Object.fromEntries(["Ki", "Mi", "Gi", "Ti", "Pi"].map((unit, index) => [unit, 1024 ** (index + 1)])),
};

/**
 * The bytes of a quantity; 0 if there is none.
 *
 * @throws Error if it is not a whole number with a unit: the fake cluster knows no others.
 */
export function bytesOf(quantity = "0"): number {
  const [, digits, unit = ""] = /^([0-9]+)([a-zA-Z]*)$/.exec(quantity) ?? [];
  const factor = factors[unit];
  if (digits === undefined || factor === undefined) throw new Error(`${quantity}: the embedded world cannot read this`);
  return Number(digits) * factor;
}
