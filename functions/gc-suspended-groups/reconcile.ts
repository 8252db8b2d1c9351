/**
 * One reconcile of a group: it ends claims of volumes that are gone, removes due volumes, and reports those whose time nears
 * its end.
 */

import type { ClaimingFunction } from "../shared/reconcile/reconcile-claims.ts";
import { notesOf } from "../shared/suspension/looks.ts";
import { asksForSuspension } from "../shared/suspension/reading.ts";
import { actOn, endOf, eventPolicy, warn } from "./act.ts";
import { decide } from "./decide.ts";
import type { RemovalSnapshot, RemovalTarget } from "./decide-removals.ts";
import { name, observe } from "./observe.ts";

export const collecting: ClaimingFunction<RemovalSnapshot, RemovalTarget> = {
  name,
  claimKind: "volume",
  eventPolicy,
  asks: asksForSuspension,
  endOf,
  observe,
  decide,
  actOn,
  notesOn: ({ times, members, nowMs, removes }) => (removes ? notesOf(times, members, nowMs) : undefined),
  after: warn,
};
