/**
 * Invariants Z1, Z2 and E1 at each ledger write, against the view that was used: a second, naive statement of the budget that
 * shares no counting with the product.
 */

import { allowanceOf } from "../../../functions/shared/governing.ts";
import type { Reservation } from "../../../functions/shared/reservation.ts";
import type { GroupView } from "../../../functions/shared/views.ts";
import { evictions, type Governance } from "./budgets.ts";

/** `all` are the reservations that stand after the write, `made` those of them that no ledger has held before. */
export function checkLedgerWrite(
  view: GroupView,
  all: readonly Reservation[],
  made: readonly Reservation[],
  violate: (invariant: string, sentence: string) => void,
): void {
  const healthy = made.filter(({ statefulSet, ordinal, uid }) => {
    const pod = view.pod(`${statefulSet}-${ordinal}`);
    return pod?.uid === uid && pod.readySinceMs !== undefined;
  });
  if (healthy.length === 0) return;

  const downIn = countDown(view, all);
  const governance = governanceOf(view);
  for (const reservation of healthy) {
    const { statefulSet: name, ordinal } = reservation;
    const isEviction = reservation.by === evictions;
    const statefulSet = view.statefulSets.find((candidate) => candidate.name === name);
    const down = downIn.get(name);
    if (statefulSet === undefined || down === undefined) {
      violate("Z3", `${name}-${ordinal} was reserved and its StatefulSet is not in the view`);
      continue;
    }
    const budget = typeof governance === "string" ? undefined : governance;
    if (governance === "ungovernable" || (isEviction && governance === "none")) {
      violate(isEviction ? "E1" : "Z2", `${name}-${ordinal} was reserved, and no budget says that it may be`);
    }
    const isPartitioned = budget?.partitions !== undefined;
    const allowance = budget === undefined ? 0 : allowanceOf(budget, statefulSet);
    if (isPartitioned) {
      const partition = budget.partitions?.partitionOf(`${name}-${ordinal}`);
      const siblings = [...downIn.values()].flatMap((pods) => [...pods]);
      const among = siblings.filter((pod) => budget.partitions?.partitionOf(pod) === partition);
      const allowed = isEviction ? allowance : Math.max(1, allowance);
      if (partition === undefined || among.length > allowed) {
        violate(
          "E1",
          `the ledger reserves ${name}-${ordinal} while ${among.join(", ")} of partition ${partition} are down`,
        );
      }
      if (isEviction) continue;
    }
    const smaller =
      isPartitioned || allowance === 0 ? statefulSet.maxUnavailable : Math.min(statefulSet.maxUnavailable, allowance);
    const allowed = isEviction ? allowance : smaller;
    if (down.size > allowed) {
      violate(
        isEviction ? "E1" : "Z2",
        `the ledger reserves ${name}-${ordinal} while ${[...down].join(", ")} count as down of ${allowed} allowed`,
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

/** The pods of each zone that are down in the view, or reserved. */
function countDown(view: GroupView, all: readonly Reservation[]): Map<string, Set<string>> {
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
  return downIn;
}

/** The one budget of the view's namespace, as far as it can be kept. */
function governanceOf({ budgets }: GroupView): Governance {
  const [only] = budgets;
  if (only === undefined) return "none";
  return budgets.length === 1 && "budget" in only.parsed ? only.parsed.budget : "ungovernable";
}
