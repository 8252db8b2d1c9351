/** What is read of a group some of whose volumes are to be suspended, or are. */
import { valuesOf } from "../shared/objects/settings.ts";
import { claimsBy } from "../shared/pass/claim-writing.ts";
import type { Context } from "../shared/pass/definition.ts";
import type { Observed } from "../shared/pass/observation.ts";
import { refusedSizes } from "../shared/pass/sizes/resizing.ts";
import { readMembers } from "../shared/pass/suspension/reading.ts";
import { volumeHoldSetting } from "../shared/pass/suspension/settings.ts";
import type { SuspendSnapshot } from "./decide.ts";

export const name = "suspend-group";
export const settings = { volumeHold: volumeHoldSetting };

/** Throws ClusterError. */
export async function observe(context: Context, observed: Observed): Promise<SuspendSnapshot> {
  const { key, zones, departed, strayClaims } = observed;
  const names = zones.map(({ statefulSet }) => statefulSet.name);
  const { members, nowMs, isNamespaceEnding } = await readMembers(context, key, names);
  return {
    group: key.group,
    nowMs,
    zones,
    departed,
    strayClaims,
    members,
    isNamespaceEnding,
    claims: claimsBy(observed, "scale-down", name),
    refused: refusedSizes(context, key),
    protects: valuesOf(settings, context.settings).volumeHold === "keep",
  };
}
