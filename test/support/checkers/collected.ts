/** Invariant K1: no ledger is collected while a process may still act on what it holds. */
import type { World } from "../../fake-cluster/world.ts";
import { isTerminating, type Reserved, readReservations } from "./raw.ts";

/** Age from which no process acts on a reservation any more: an act takes five seconds, and its answer ten. */
const actedMs = 20_000;
/** Age from which a process may give up a reservation. Until then a terminating pod counts as taken by it. */
const givenUpMs = 120_000;

interface LeaseKey {
  readonly namespace: string;
  readonly name: string;
}

type Reservation = Pick<Reserved, "uid" | "by" | "stampMs">;

export class CollectedChecker {
  readonly #world: World;
  readonly #violate: (invariant: string, message: string) => void;
  /** When each reservation was first written, on the true clock. */
  readonly #writtenMs = new Map<string, number>();

  constructor(world: World, violate: (invariant: string, message: string) => void) {
    this.#world = world;
    this.#violate = violate;
    world.store.onChange("leases", ({ current }) => {
      for (const reservation of current === undefined ? [] : (readReservations(current) ?? [])) {
        const identity = identify(reservation);
        this.#writtenMs.set(identity, this.#writtenMs.get(identity) ?? world.timeline.nowMs());
      }
    });
  }

  /** Called when a function's deletion of a ledger has arrived, and the server is about to carry it out. */
  onArrived(who: string, at: LeaseKey, { resourceVersion }: { readonly resourceVersion?: string }): void {
    const lease = this.#world.store.find("leases", at);
    if (lease === undefined || lease.metadata.resourceVersion !== resourceVersion) return;
    for (const reservation of readReservations(lease) ?? []) {
      const { namespace } = at;
      const name = `${reservation.set}-${reservation.ordinal}`;
      const pod = this.#world.store.find("pods", { namespace, name });
      if (pod?.metadata.uid !== reservation.uid) continue;
      const writtenMs = this.#writtenMs.get(identify(reservation)) ?? Number.NEGATIVE_INFINITY;
      const ageMs = this.#world.timeline.nowMs() - writtenMs;
      if (ageMs >= (isTerminating(pod) ? givenUpMs : actedMs)) continue;
      const state = isTerminating(pod) ? "is on its way out" : "may go any moment";
      const message = `${who} collects ${at.name}, and ${name}, reserved ${(ageMs / 1000).toFixed(1)} s ago, ${state}`;
      this.#violate("K1", message);
    }
  }
}

function identify({ uid, by, stampMs }: Reservation): string {
  return `${uid} ${by} ${stampMs}`;
}
