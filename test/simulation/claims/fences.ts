/** Fences of nodes that run pods of several groups: each group's ledger gets the claim before anything is done (rule R23). */

import type { Context } from "../../../functions/shared/contract/context.ts";
import { hasCode } from "../../../functions/shared/kubernetes/cluster.ts";
import { type ClaimContent, makeClaim } from "../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import { forgetLedger } from "../../../functions/shared/transaction/ledger-copy.ts";
import type { nextToAnnounce } from "../../../functions/shared/workloads/group-key.ts";
import { type GroupKey, groupPathOf } from "../../../functions/shared/workloads/statefulsets.ts";
import type { World } from "../../fake-cluster/world.ts";
import { groupLabel, ordinalIn, setNameOf } from "../../support/checkers/raw.ts";
import type { Checker } from "../checker.ts";
import { observeLedger, writeClaim } from "./writing.ts";

/** What a fence takes down in one group: the pods of one zone that run on the node. */
export interface Fenced {
  readonly key: GroupKey;
  readonly zone: string;
  readonly members: ClaimContent["members"];
  readonly uids: Readonly<Record<string, string>>;
}

/** The groups that have pods on a node now. */
export function fencedBy(world: World, namespace: string, node: string, groups: readonly string[]): Fenced[] {
  const pods = world.store.list("pods", { namespace }).items.filter(({ spec }) => spec.nodeName === node);
  return groups.flatMap((group): Fenced[] => {
    const own = pods.filter(({ metadata: { name } }) => {
      const set = world.store.find("statefulsets", { namespace, name: setNameOf(name) });
      return set?.metadata.labels?.[groupLabel] === group;
    });
    const [first] = own;
    if (first === undefined) return [];
    const zone = setNameOf(first.metadata.name);
    const inZone = own.filter(({ metadata }) => setNameOf(metadata.name) === zone);
    const ordinals = inZone.map(({ metadata }) => ordinalIn(metadata.name)).sort((one, other) => one - other);
    const members = ordinals.map((ordinal) => ({ first: ordinal, last: ordinal }));
    const uids = Object.fromEntries(inZone.map(({ metadata: { name, uid } }) => [name, uid]));
    return [{ key: { namespace, group }, zone, members, uids }];
  });
}

export interface FencesOptions {
  readonly world: World;
  readonly context: Context;
  readonly key: GroupKey;
  readonly groups: readonly string[];
  /** Name of the function that fences. */
  readonly by: string;
  /** Annotation of the anchors. */
  readonly why: string;
  /** Rule R23. */
  readonly next: typeof nextToAnnounce;
  readonly onFenced: (id: string, node: string) => void;
  readonly log: (what: string) => void;
}

/** What one process does to fence nodes. It may be killed between two ledgers; then another process goes on. */
export class Fences {
  readonly #options: FencesOptions;

  constructor(options: FencesOptions) {
    this.#options = options;
  }

  /** Creates the Lease of a fence, before any ledger holds the fence. Throws ClusterError. */
  async anchor({ anchor, id }: ClaimContent): Promise<void> {
    const { context, key, why } = this.#options;
    const metadata = { name: anchor?.name, annotations: { [why]: id } };
    try {
      await context.cluster.create("leases", key.namespace, { metadata });
    } catch (error) {
      if (!hasCode(error, 409)) throw error;
      await context.cluster.patch("leases", { namespace: key.namespace, name: anchor?.name ?? "" }, { metadata });
    }
  }

  /**
   * Writes the fence into the next ledger that does not hold it yet, one after the other, each by what that ledger holds.
   * Carries the fence out when all hold it. Throws ClusterError, Conflict.
   */
  async announce({ id, anchor }: ClaimContent): Promise<void> {
    const { world, key, groups, next, context, by, onFenced, log } = this.#options;
    const node = nodeOf(anchor);
    const fenced = fencedBy(world, key.namespace, node, groups);
    const informed = new Set<string>();
    for (;;) {
      const keys = fenced.map((one) => one.key);
      const to = next(keys, (one) => informed.has(groupPathOf(one)));
      const what = fenced.find((one) => to !== undefined && groupPathOf(one.key) === groupPathOf(to));
      if (what === undefined) break;
      forgetLedger(context.memoryOf(what.key));
      const observed = await observeLedger(context, what.key);
      if (observed === undefined) return;
      informed.add(groupPathOf(what.key));
      if (observed.ledger.claims.some((claim) => claim.id === id)) continue;
      const { zone, members, uids } = what;
      const stated = { id, kind: "node", zone, members, uids, by, phase: "begun", terms: "announced" } as const;
      const stampMs = context.cluster.serverTimeMs();
      const claim = makeClaim({ ...stated, stampMs, ...(anchor === undefined ? {} : { anchor }) });
      await writeClaim(context, observed, undefined, claim);
      log(`claims ${claim.line} in ${what.key.group}`);
    }
    log(`fences ${node} (${id})`);
    onFenced(id, node);
  }

  /** True if every ledger of the fence's groups holds it, or if there is only one group. */
  async isInformed({ id, anchor }: ClaimContent): Promise<boolean> {
    const { world, context, key, groups } = this.#options;
    if (groups.length < 2) return true;
    for (const one of fencedBy(world, key.namespace, nodeOf(anchor), groups)) {
      forgetLedger(context.memoryOf(one.key));
      const observed = await observeLedger(context, one.key);
      if (observed?.ledger.claims.some((claim) => claim.id === id) === false) return false;
    }
    return true;
  }
}

function nodeOf(anchor: ClaimContent["anchor"]): string {
  return (anchor?.name ?? "").replace("fence-", "");
}

/** K6: ledgers get a fence in the order of their names, and the fence is carried out after the last of them. */
export class FenceChecker implements Checker {
  readonly invariants = ["K6"];
  readonly #world: World;
  readonly #namespace: string;
  readonly #groups: readonly string[];
  readonly #violate: (invariant: string, message: string) => void;
  /** Groups whose ledgers have held a fence, by the id of the fence. */
  readonly #informed = new Map<string, Set<string>>();

  constructor(options: {
    readonly world: World;
    readonly namespace: string;
    readonly groups: readonly string[];
    readonly violate: (invariant: string, message: string) => void;
  }) {
    this.#world = options.world;
    this.#namespace = options.namespace;
    this.#groups = [...options.groups].sort();
    this.#violate = options.violate;
    options.world.store.onChange("leases", () => this.#read());
  }

  #read(): void {
    for (const group of this.#groups) {
      for (const { id, node } of this.#fencesIn(group)) {
        const informed = this.#informed.get(id) ?? new Set<string>();
        this.#informed.set(id, informed);
        if (informed.has(group)) continue;
        informed.add(group);
        const before = this.#affected(node).filter((other) => other < group && !informed.has(other));
        if (before.length > 0) this.#violate("K6", `${group} learns of ${id} before ${before.join(", ")}`);
      }
    }
  }

  #fencesIn(group: string): { readonly id: string; readonly node: string }[] {
    const at = { namespace: this.#namespace, name: ledgerName(group) };
    const text = this.#world.store.find("leases", at)?.metadata.annotations?.["sluice.dev/claims"] ?? "";
    const claims = text.split("\n").filter((line) => line !== "");
    return claims.flatMap((line) => {
      const { id, kind, anchor } = JSON.parse(line);
      // The shipped function has a claim for each StatefulSet, called FENCE/STATEFULSET.
      return kind === "node" ? [{ id: id.split("/")[0], node: String(anchor.name).replace("fence-", "") }] : [];
    });
  }

  #affected(node: string): string[] {
    return fencedBy(this.#world, this.#namespace, node, this.#groups).map(({ key }) => key.group);
  }

  /** Called when the fence is carried out. */
  onFenced(id: string, node: string): void {
    const silent = this.#affected(node).filter((group) => this.#informed.get(id)?.has(group) !== true);
    if (silent.length > 0) this.#violate("K6", `${node} is fenced, and ${silent.join(", ")} has not learnt of ${id}`);
  }
}
