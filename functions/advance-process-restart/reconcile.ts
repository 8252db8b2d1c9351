/** One reconcile of a group: the restart that is under way takes its next step, and then it is decided which one begins. */

import { askedBy } from "../shared/reconcile/concern.ts";
import type { ClaimingFunction } from "../shared/reconcile/reconcile-claims.ts";
import { actOn, eventPolicy, reportPhases } from "./act.ts";
import { endOf } from "./advance.ts";
import { decide, type RestartSnapshot, type RestartTarget } from "./decide.ts";
import { withDrift } from "./drift/reconcile.ts";
import { ask, isManaged, name, observe } from "./observe.ts";
import { reportStops } from "./report-parked.ts";
import { reportTemplates } from "./report-template.ts";
import { needsList } from "./trigger/observe.ts";

const asksManaged = askedBy(isManaged);

const byPhases: ClaimingFunction<RestartSnapshot, RestartTarget> = {
  name,
  claimKind: "process",
  eventPolicy,
  // The last StatefulSet of a group may move to another one in the middle of its restart, which ends under its own ledger.
  asks: async (context, key) => {
    const asks = await asksManaged(context, key);
    return asks === "gone" ? "no" : asks;
  },
  endOf,
  needsList,
  observe,
  decide,
  ask,
  actOn,
  notesOn: ({ triggers }) => triggers?.known && { change: { knownTriggers: triggers.known }, isDue: true },
  async after(context, key, last) {
    await reportPhases(context, key, last);
    await reportTemplates(context, key, last);
    await reportStops(context, key, last.zones);
  },
};

export const restarting = withDrift(byPhases);
