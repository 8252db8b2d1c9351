/**
 * Invariants Z1 and Z2 at each ledger write, against the view that was used: a second, naive statement of the budget that
 * shares no counting with the product.
 */

import type { LeaseObject } from "../../../functions/shared/cluster.ts";
import { parseLedger } from "../../../functions/shared/reservation.ts";
import type { GroupView } from "../../../functions/shared/views.ts";

export function checkLedgerWrite(
  key: { namespace: string; group: string },
  view: GroupView | undefined,
  before: LeaseObject | undefined,
  after: LeaseObject,
  violate: (invariant: string, sentence: string) => void,
): void {
  if (view === undefined || before === undefined) return;
  const was = new Set(parseLedger(key, before).reservations.map(({ uid, stampMs }) => `${uid} ${stampMs}`));
  const all = parseLedger(key, after).reservations;
  const made = all.filter(({ uid, stampMs }) => !was.has(`${uid} ${stampMs}`));
  const healthy = made.filter(({ statefulSet, ordinal, uid }) => {
    const pod = view.pod(`${statefulSet}-${ordinal}`);
    return pod?.uid === uid && pod.readySinceMs !== undefined;
  });
  if (healthy.length === 0) return;

  const downIn = new Map<string, Set<string>>();
  for (const { name, start, replicas } of view.statefulSets) {
    const down = new Set<string>();
    for (let ordinal = start; ordinal < start + replicas; ordinal++) {
      const pod = view.pod(`${name}-${ordinal}`);
      const reserved = all.some((reservation) => reservation.statefulSet === name && reservation.ordinal === ordinal);
      if (pod === undefined || pod.terminating || pod.readySinceMs === undefined || reserved)
        down.add(`${name}-${ordinal}`);
    }
    downIn.set(name, down);
  }
  for (const { statefulSet: name, ordinal } of healthy) {
    const statefulSet = view.statefulSets.find((candidate) => candidate.name === name);
    const down = downIn.get(name);
    if (statefulSet === undefined || down === undefined) {
      violate("Z3", `${name}-${ordinal} was reserved and its StatefulSet is not in the view`);
    } else if (down.size > statefulSet.maxUnavailable) {
      violate(
        "Z2",
        `the ledger reserves ${name}-${ordinal} while ${[...down].join(", ")} count as down of ${statefulSet.maxUnavailable} allowed`,
      );
    }
    const others = [...downIn].filter(([other, pods]) => other !== name && pods.size > 0);
    if (others.length > 0) {
      violate(
        "Z1",
        `the ledger reserves ${name}-${ordinal} while ${others.flatMap(([, pods]) => [...pods]).join(", ")} are down in another zone`,
      );
    }
  }
}
