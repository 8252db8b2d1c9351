/**
 * Invariants Z1, Z2 and E1 at each ledger write, by the view that the process used. This second, simple statement of the
 * budget shares no counting with the product, and reads the objects behind the view.
 */
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { evictions, governanceOf, groupOf } from "./budgets.ts";
import {
  type Budget,
  budgetLimit,
  evictionLimit,
  has,
  isUp,
  partitionOf,
  type Reserved,
  rolloutLimit,
  wantedOrdinals,
} from "./raw.ts";

/** The objects behind a view, as the API server had them. */
export interface SeenView {
  readonly members: readonly StoredStatefulSet[];
  readonly neighbours: readonly StoredStatefulSet[];
  readonly budgets: readonly StoredObject[];
  pod(name: string): StoredPod | undefined;
}

type Violate = (invariant: string, message: string) => void;

/** `all`: the reservations after the write. `made`: those that no ledger has held before. */
export function checkLedgerWrite(
  view: SeenView,
  all: readonly Reserved[],
  made: readonly Reserved[],
  violate: Violate,
): void {
  const healthy = made.filter(({ set, ordinal, uid }) => {
    const pod = view.pod(`${set}-${ordinal}`);
    return pod?.metadata.uid === uid && isUp(pod);
  });
  if (healthy.length === 0) return;
  const downIn = countDown(view, all);
  for (const reservation of healthy) checkOne(view, downIn, reservation, violate);
}

function checkOne(
  view: SeenView,
  downIn: ReadonlyMap<string, ReadonlySet<string>>,
  made: Reserved,
  violate: Violate,
): void {
  const name = `${made.set}-${made.ordinal}`;
  const isEviction = made.by === evictions;
  const set = view.members.find(({ metadata }) => metadata.name === made.set);
  const down = downIn.get(made.set);
  if (set === undefined || down === undefined) {
    violate("Z3", `${name} was reserved and its StatefulSet is not in the view`);
    return;
  }
  const governance = governanceOf(view.budgets, view.pod(name)?.metadata.labels ?? {}, (budget) => spans(view, budget));
  if (governance === "ungovernable" || (isEviction && governance === "none")) {
    violate(isEviction ? "E1" : "Z2", `${name} was reserved, and no budget says that it may be`);
  }
  const budget = typeof governance === "string" ? undefined : governance;
  const allowance = budget === undefined ? 0 : (isEviction ? evictionLimit : budgetLimit)(budget, set, made.ordinal);
  if (budget?.partitions !== undefined) {
    const partition = partitionOf(budget, name);
    const among = [...downIn.values()]
      .flatMap((pods) => [...pods])
      .filter((pod) => partitionOf(budget, pod) === partition);
    if (partition === undefined || among.length > (isEviction ? allowance : Math.max(1, allowance))) {
      violate("E1", `the ledger reserves ${name} while ${among.join(", ")} of partition ${partition} are down`);
    }
    if (isEviction) return;
  }
  const isOwn = budget?.partitions !== undefined || allowance === 0;
  const allowed = isEviction ? allowance : isOwn ? rolloutLimit(set) : Math.min(rolloutLimit(set), allowance);
  if (down.size > allowed) {
    const message = `the ledger reserves ${name} while ${[...down].join(", ")} count as down of ${allowed} allowed`;
    violate(isEviction ? "E1" : "Z2", message);
  }
  const others = [...downIn].filter(([other]) => other !== made.set).flatMap(([, pods]) => [...pods]);
  if (others.length > 0)
    violate("Z1", `the ledger reserves ${name} while ${others.join(", ")} are down in another zone`);
}

/** True if a budget selects, by their templates, pods of StatefulSets that belong to different ledgers. */
function spans({ members, neighbours, budgets }: SeenView, { selected }: Budget): boolean {
  const governed = [...members, ...neighbours].filter(({ spec }) => has(spec.template.metadata?.labels, selected));
  return new Set(governed.map((set) => groupOf(set, budgets))).size > 1;
}

/** The pods of each zone that are down in the view, or reserved. */
function countDown(view: SeenView, all: readonly Reserved[]): Map<string, Set<string>> {
  const downIn = new Map<string, Set<string>>();
  for (const member of view.members) {
    const { name } = member.metadata;
    const down = wantedOrdinals(member).filter((ordinal) => {
      const pod = view.pod(`${name}-${ordinal}`);
      const isReserved = all.some((reservation) => reservation.set === name && reservation.ordinal === ordinal);
      return pod === undefined || !isUp(pod) || isReserved;
    });
    downIn.set(name, new Set(down.map((ordinal) => `${name}-${ordinal}`)));
  }
  return downIn;
}
