/**
 * Invariants of what makers of claims do, by the text of the ledger and the objects of the world. K5: a function that waits
 * for the impossible reports so. K7: a change of a size joins its own claim and no other. K8: restarts lose no quorum.
 */
import type { SizeChange } from "../../../functions/shared/scaling/size-changes.ts";
import { isReady, type StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { ordinalIn, setNameOf } from "../../support/checkers/raw.ts";
import type { Checker } from "../checker.ts";
import { quorumOf, upIn } from "./brokers.ts";

export interface MovesCheckerOptions {
  readonly world: World;
  readonly namespace: string;
  readonly ledger: string;
  readonly violate: (invariant: string, message: string) => void;
}

/**
 * What had lasted longer than this was also true when the question was asked, because the process acts soon after the answer.
 */
const askedWithinMs = 12_000;

export class MovesChecker implements Checker {
  readonly invariants = ["K5", "K7", "K8"];
  readonly #options: MovesCheckerOptions;

  constructor(options: MovesCheckerOptions) {
    this.#options = options;
  }

  /** K5: a function wants `members` pods down at once, and at most `limit` may be. */
  onDecided(members: number, limit: number, guard: string | undefined): void {
    const isNever = members > limit;
    // To go on beyond the limit breaks another promise.
    if (guard === undefined) return;
    if (isNever === (guard === "never-possible")) return;
    const reported = `a function that wants ${members} pods down, where ${limit} may be, waits for ${guard}`;
    this.#options.violate("K5", reported);
  }

  /** K7: checks a review by the claims that the reviewer has read. */
  onReviewed({ zone, uid, from, to, pods }: SizeChange, lines: readonly string[], joins: boolean): void {
    const claims = lines.map((line) => JSON.parse(line));
    const isFor = claims.some((claim) => {
      if (claim.kind !== "scale-down" || claim.zone !== zone || claim.phase !== "confirmed") return false;
      const named = ordinalsOf(String(claim.members));
      const end = to.start + to.replicas;
      const leaving = Array.from({ length: Math.max(0, from.replicas - to.replicas) }, (_, index) => end + index);
      const isAll = leaving.length > 0 && leaving.every((ordinal) => named.includes(ordinal));
      if ([...pods].some(([name, podUid]) => claim.uids?.[name] !== podUid)) return false;
      return claim.uids?.[zone] === uid && named[0] === end && isAll;
    });
    if (isFor === joins) return;
    const what = `the change of ${zone} from ${from.replicas} to ${to.replicas} ${joins ? "joins" : "is held, beside"} ${lines.join(" ")}`;
    this.#options.violate("K7", what);
  }

  /** K8: a pod was restarted in place; the others must not have needed it when they were asked. */
  onRestarted(name: string): void {
    const { world, namespace, violate } = this.#options;
    const zone = setNameOf(name);
    const quorum = quorumOf(world, namespace, zone);
    if (upIn(world, namespace, zone).length >= quorum) return;
    // Our processes cannot know what has only just broken. They know what else they restart.
    const others = this.#others(zone, name).filter((pod) => !isReady(pod));
    const known = others.filter((pod) => this.#isRestarted(pod) || this.#downForMs(pod) > askedWithinMs);
    const names = known.map(({ metadata }) => metadata.name);
    if (names.length < others.length || names.length === 0) return;
    violate("K8", `${name} is restarted while ${names.join(", ")} is down, and ${zone} needs ${quorum} pods`);
  }

  #others(zone: string, name: string): StoredPod[] {
    const pods = this.#options.world.store.list("pods", { namespace: this.#options.namespace }).items;
    return pods.filter(({ metadata }) => setNameOf(metadata.name) === zone && metadata.name !== name);
  }

  #downForMs({ status }: StoredPod): number {
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    return this.#options.world.timeline.nowMs() - Date.parse(ready?.lastTransitionTime ?? "");
  }

  #isRestarted({ metadata: { name, uid } }: StoredPod): boolean {
    const { world, namespace, ledger } = this.#options;
    const lease = world.store.find("leases", { namespace, name: ledger });
    const lines = (lease?.metadata.annotations?.["sluice.dev/claims"] ?? "").split("\n").filter((line) => line !== "");
    return lines.some((line) => {
      const { kind, zone, members, uids } = JSON.parse(line);
      const isNamed = zone === setNameOf(name) && ordinalsOf(String(members)).includes(ordinalIn(name));
      return kind === "process" && isNamed && uids?.[name] === uid;
    });
  }
}

function ordinalsOf(members: string): number[] {
  return members.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
