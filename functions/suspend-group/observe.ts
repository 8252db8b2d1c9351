/** What is read of a group some of whose volumes are to be suspended, or are. */
import { isRequested, isSuspendedInPart } from "../shared/group/suspension/members.ts";
import { valuesOf } from "../shared/objects/settings.ts";
import { claimsBy } from "../shared/pass/claim-writing.ts";
import type { Context } from "../shared/pass/definition.ts";
import type { Observed } from "../shared/pass/observation.ts";
import { refusedSizes } from "../shared/pass/sizes/resizing.ts";
import { withDrainAnswers } from "../shared/pass/suspension/drain-questions.ts";
import { withTrueMarks } from "../shared/pass/suspension/marks.ts";
import { readMembers } from "../shared/pass/suspension/reading.ts";
import { volumeHoldSetting } from "../shared/pass/suspension/settings.ts";
import type { SuspendSnapshot } from "./decide.ts";

export const name = "suspend-group";
export const settings = { volumeHold: volumeHoldSetting };

/** Throws ClusterError. */
export async function observe(context: Context, observed: Observed): Promise<SuspendSnapshot> {
  const { key, zones, departed, strayClaims } = observed;
  const names = zones.map(({ statefulSet }) => statefulSet.name);
  const { members: listed, nowMs, isNamespaceEnding } = await readMembers(context, key, names);
  const read = await withTrueMarks(context, observed.ledger, listed);
  // Who is asked last has the last word: the answers are newer than the ledger (rule R22).
  const members = await withDrainAnswers(
    context,
    name,
    key,
    read,
    (one) => isRequested(one) && !isSuspendedInPart(one),
  );
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
