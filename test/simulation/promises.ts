/** Checkers of the shipped functions: which pods a rollout and an eviction may take, and when a ledger may be collected. */
import type { ObjectKey, Preconditions, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { CollectedChecker } from "../support/checkers/collected.ts";
import { checkLedgerWrite } from "../support/checkers/ledger-write.ts";
import { TrueWorldChecker } from "../support/checkers/true-world.ts";
import type { Caller, Checker, LedgerWrite } from "./checker.ts";
import type { SeedRun } from "./seed.ts";

/** Checks each pod that any function takes in a namespace, by the function's terms and by what the ledger holds. */
export class TakenPods implements Checker {
  readonly invariants = ["Z1", "Z2", "Z3", "Z4", "E1"];
  readonly #checker: TrueWorldChecker;
  readonly #namespace: string;

  constructor({ world, pasts, plan, violate }: SeedRun, namespace: string) {
    this.#namespace = namespace;
    this.#checker = new TrueWorldChecker({
      world,
      past: pasts.sets(namespace),
      budgets: pasts.budgets(namespace),
      namespace,
      skewMs: plan.every.clock > 0 ? 14_000 : plan.skewMs,
      violate,
    });
  }

  onDeletionSent({ process, role }: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void {
    if (resource !== "pods" || key.namespace !== this.#namespace) return;
    this.#checker.noteSent(preconditions);
    if (role.isRollout === true) this.#checker.onSent(process.name, key, preconditions);
  }

  onDeletionArrived({ process, role }: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void {
    if (resource === "pods" && key.namespace === this.#namespace)
      this.#checker.onArrived(process.name, role.terms ?? "rollout", key, preconditions);
  }

  onEvicted(key: ObjectKey, uid: string | undefined, guard: string): void {
    if (key.namespace !== this.#namespace) return;
    const terms = guard === "out-of-scope" ? "ungoverned" : "eviction";
    this.#checker.onArrived("api-server", terms, key, uid === undefined ? {} : { uid });
  }

  onLedgerWritten({ lease, group, made, all }: LedgerWrite): void {
    if (lease.metadata.namespace === this.#namespace) this.#checker.noteWritten(group, made, all);
  }
}

/** Checks each reservation once, by the view of its decision. */
export class MadeReservations implements Checker {
  readonly invariants = ["R2", "Z1", "Z2", "E1"];
  readonly #violate: SeedRun["violate"];

  constructor({ violate }: SeedRun) {
    this.#violate = violate;
  }

  onLedgerWritten({ seen, all, made }: LedgerWrite): void {
    if (seen !== undefined && made.length > 0) checkLedgerWrite(seen, all, made, this.#violate);
  }
}

/** Checks collected ledgers: one that goes too early takes reservations with it on which a process still acts. */
export class CollectedLedgers implements Checker {
  readonly invariants = ["K1"];
  readonly #checker: CollectedChecker;

  constructor({ world, violate }: SeedRun) {
    this.#checker = new CollectedChecker(world, violate);
  }

  onDeletionArrived({ process }: Caller, resource: Resource, key: ObjectKey, preconditions: Preconditions): void {
    if (resource === "leases") this.#checker.onArrived(process.name, key, preconditions);
  }
}
