/** A later version of Sluice beside this one, which keeps the ledger in a format that this one does not know (rule R2). */
import type { LeaseObject, ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { groupLabel, isUp, setNameOf } from "../../support/checkers/raw.ts";
import type { Actor } from "../actor.ts";
import type { Caller, Checker } from "../checker.ts";
import type { Connection, Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { formatKey, Newer } from "./newer.ts";

const newerName = "newer";

export class Versions implements Actor {
  readonly name = "versions";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;

  constructor(run: SeedRun) {
    this.#run = run;
    const newer: Role = {
      name: newerName,
      watches: "itself",
      count: 1,
      inPeace: "new",
      diesAfterWrite: true,
      open: (connection) => this.#open(connection),
    };
    const isThere = run.plan.versions?.laterFormat === true;
    this.roles = isThere ? [newer] : [];
    this.checkers = isThere ? [new ForeignFormat(run)] : [];
  }

  #open({ process, cluster }: Connection): undefined {
    const { draw, plan, namespace, group, isFaulty, log } = this.#run;
    const newer = new Newer({
      cluster,
      draw,
      namespace,
      group,
      ledger: ledgerName(group),
      takes: plan.budget === undefined && plan.minReadySeconds === 0,
      isActive: isFaulty,
      log: (what) => log(process.name, what),
    });
    void newer.run();
  }
}

/** A reservation that was written before the format changed may be acted on for five seconds (rule R9). */
const actWithinMs = 5_000;
/** Longest time that the answer to a review is on its way. */
const answeredWithinMs = 1_000;

/** Rule R2: a process permits nothing by a ledger of another format, does not write over it, and does not collect it. */
class ForeignFormat implements Checker {
  readonly invariants = ["R2", "L1"];
  readonly #run: SeedRun;
  readonly #key: ObjectKey;
  #sinceMs: number | undefined;
  /** Revision of the last write to a ledger of another format. */
  #overwritten: string | undefined;

  constructor(run: SeedRun) {
    this.#run = run;
    const { world, namespace, group, pasts } = run;
    pasts.sets(namespace);
    this.#key = { namespace, name: ledgerName(group) };
    world.store.onChange("leases", ({ previous, current, final }) => {
      if (final.metadata.namespace !== namespace || final.metadata.name !== this.#key.name) return;
      if (previous !== undefined && isForeign(previous)) this.#overwritten = current?.metadata.resourceVersion;
      if (current === undefined || !isForeign(current)) this.#sinceMs = undefined;
      else this.#sinceMs ??= world.timeline.nowMs();
    });
  }

  onPatched({ process, role }: Caller, resource: Resource, after: object): void {
    const { resourceVersion } = (after as LeaseObject).metadata;
    if (resource !== "leases" || resourceVersion !== this.#overwritten || role.name === newerName) return;
    this.#run.violate("R2", `${process.name} has written over a ledger of another format`);
  }

  onDeletionArrived({ process }: Caller, resource: Resource, key: ObjectKey, { uid }: Preconditions): void {
    if (resource !== "leases" || key.namespace !== this.#key.namespace || key.name !== this.#key.name) return;
    const lease = this.#run.world.store.find("leases", key);
    if (lease !== undefined && lease.metadata.uid === uid && isForeign(lease))
      this.#run.violate("R2", `${process.name} collects a ledger of another format`);
  }

  onDeletionSent({ process, role }: Caller, resource: Resource, key: ObjectKey): void {
    if (resource === "pods" && role.name !== newerName && this.#isBlocked(key, actWithinMs))
      this.#run.violate("R2", `${process.name} deletes ${key.name} under a ledger of another format`);
  }

  onAllowed(key: ObjectKey, uid: string | undefined, guard: string): void {
    const pod = this.#run.world.store.find("pods", key);
    // Evicting a pod that is already going, or gone, takes nothing.
    if (guard === "out-of-scope" || guard === "exempt" || pod === undefined || !isUp(pod)) return;
    if (uid !== undefined && uid !== pod.metadata.uid) return;
    if (this.#isBlocked(key, actWithinMs + answeredWithinMs))
      this.#run.violate("R2", `the eviction of ${key.name} is allowed under a ledger of another format`);
  }

  missing(): string | undefined {
    return this.#sinceMs === undefined ? undefined : `the ledger ${this.#key.name} is of another format`;
  }

  /** True for a pod that has belonged to the group for this long while the ledger had another format. */
  #isBlocked({ namespace, name }: ObjectKey, forMs: number): boolean {
    const { world, group, pasts } = this.#run;
    if (this.#sinceMs === undefined || world.timeline.nowMs() - this.#sinceMs <= forMs) return false;
    // A pod that has just come from another group may still be taken by the ledger of that group.
    const isOfGroup = ({ metadata }: StoredStatefulSet) => metadata.labels?.[groupLabel] === group;
    return namespace === this.#key.namespace && pasts.sets(namespace).stood(setNameOf(name), forMs, isOfGroup);
  }
}

function isForeign({ metadata }: Pick<LeaseObject, "metadata">): boolean {
  return (metadata.annotations?.[formatKey] ?? "1") !== "1";
}
