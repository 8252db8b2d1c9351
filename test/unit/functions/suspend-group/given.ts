/** Verdicts of suspend-group over small groups, as short texts. */
import { decide, type SuspensionTarget } from "../../../../functions/suspend-group/decide.ts";
import type { SuspendSnapshot } from "../../../../functions/suspend-group/lowering.ts";
import { Suspended } from "../../../support/suspended.ts";

/** Zones whose owners are StatefulSets, or another object. */
type Given = Pick<Suspended, "around">;

export const decideOn = (on: Given, changes: Partial<SuspendSnapshot> = {}) =>
  decide({
    ...on.around("suspend-group", "scale-down"),
    refused: new Map(),
    protects: true,
    disruptionBudgets: [],
    ...changes,
  });

/** `KIND OBJECT` of each target that is more than a message; `GUARD` of each message to a volume claim. */
export function decided(on: Given, changes: Partial<SuspendSnapshot> = {}): readonly string[] {
  const verdict = decideOn(on, changes);
  const targets: readonly SuspensionTarget[] = verdict.kind === "take" ? verdict.targets : [];
  const described = targets.map((target) => {
    if (target.kind === "resize") return `${target.set.name} to ${target.target}`;
    if (target.kind === "let-go") return `let-go ${target.leaving.map(({ name }) => name).join(" ")}`;
    return target.kind === "tell" ? target.guard : `${target.kind} ${target.member.name}`;
  });
  return verdict.kind === "wait" ? [verdict.guard] : [...new Set(described)];
}

/** Members with a request and our finalizer, whose pods still run. */
export function suspending(zones: readonly string[] = ["a", "b"], ordinals: readonly number[] = [2]): Suspended {
  const on = Suspended.of(zones);
  for (const zone of zones)
    for (const ordinal of ordinals) {
      on.ask(zone, ordinal);
      on.annotate(zone, ordinal, { "suspend-state": "Suspending", "suspend-owner-uid": `uid-db-${zone}` });
      on.hold(zone, ordinal, ["sluice.dev/volume-hold"]);
    }
  return on;
}
