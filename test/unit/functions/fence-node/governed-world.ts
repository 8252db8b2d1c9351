/** A node with pods of two groups, each of which has a ledger that may permit something. */
import { loadLedger } from "../../../../functions/shared/transaction/ledger-copy.ts";
import { key, namespace, played } from "../../shared/reconcile/harness.ts";
import { firstBoot, type NodeWorld, nodeWorld } from "./node-world.ts";

/** Before `group` in the order of rule R23. */
export const first = { namespace, group: "first" };
export const second = key;
export const ledgerOf = (group: string) => ({ namespace, name: `sluice-${group}` });

export interface ClaimLine {
  readonly id: string;
  readonly zone: string;
  readonly members: string;
  readonly phase: string;
  readonly uids: Readonly<Record<string, string>>;
  readonly containers: Readonly<Record<string, readonly string[]>>;
}

export interface GovernedWorld extends NodeWorld {
  /** The claims in the ledger of a group. */
  claims(group: string): readonly ClaimLine[];
  /** The machine starts anew, and its kubelet reports the boot and, some time later, its pods. */
  returns(bootId: string): void;
  /** Lets time go by, with a reconcile of the node every three seconds. */
  live(ms: number): Promise<void>;
}

export async function governedWorld(): Promise<GovernedWorld> {
  const world = nodeWorld({ zones: ["a", "b"] });
  const { harness } = world;
  harness.world.addGroup({ namespace, group: first.group, zones: ["a"], replicas: 3 });
  harness.world.settle();
  for (const one of [first, second])
    await played(harness.timeline, loadLedger(harness.context, one, harness.context.memoryOf(one)));
  await harness.goOn(60_000);
  const governed: GovernedWorld = {
    ...world,
    claims(group) {
      const text = harness.world.store.get("leases", ledgerOf(group)).metadata.annotations?.["sluice.dev/claims"] ?? "";
      return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
    },
    falls() {
      harness.world.kubelet.loseNode("a-0");
      world.boot(firstBoot, false);
    },
    returns(bootId) {
      world.boot(bootId);
      harness.world.kubelet.recoverNode("a-0");
    },
    async live(ms) {
      for (let passedMs = 0; passedMs < ms; passedMs += 3_000) {
        await harness.goOn(3_000);
        await world.reconcile();
      }
    },
  };
  return governed;
}
