/** One reconcile of a group: claims that are over go, and then it is decided what goes and what comes back. */

import type { ClaimingFunction } from "../shared/reconcile/reconcile-claims.ts";
import { notesOf } from "../shared/suspension/looks.ts";
import { asksForSuspension } from "../shared/suspension/reading.ts";
import { actOn, eventPolicy } from "./act.ts";
import { decide, type SuspensionTarget } from "./decide.ts";
import { endOf } from "./end-claims.ts";
import type { SuspendSnapshot } from "./lowering.ts";
import { ask, name, observe } from "./observe.ts";

export const suspending: ClaimingFunction<SuspendSnapshot, SuspensionTarget> = {
  name,
  claimKind: "scale-down",
  eventPolicy,
  asks: asksForSuspension,
  endOf,
  observe,
  decide,
  ask,
  actOn,
  notesOn: ({ times, members, nowMs, protects }) => (protects ? notesOf(times, members, nowMs) : undefined),
};
