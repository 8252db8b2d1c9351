/** Followers with their zones, as a decision reads them: a test states only what it is about. */

import type { FollowerResize, FollowSnapshot } from "../../../../functions/follow-replicas/decide.ts";
import { parseScaling } from "../../../../functions/shared/annotations/parse-scaling.ts";
import type { Verdict } from "../../../../functions/shared/contract/verdict.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { FollowerSize } from "../../../../functions/shared/scaling/follower-sizes.ts";
import { nowMs, type ZoneOptions, zone } from "../advance-zone-rollout/given.ts";

type Texts = Readonly<Record<string, string>>;

interface FollowerOptions extends ZoneOptions {
  /** Of the StatefulSet, without `grafana.com/`. */
  readonly annotations?: Texts;
  readonly labels?: Texts;
}

export interface Follower {
  readonly own: Zone;
  readonly wanted: FollowerSize["wanted"];
}

const grafana = (texts: Texts) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [`grafana.com/${name}`, text]));

/** Labels of a StatefulSet whose size a webhook reviews. */
export const reviewed = { "prepare-downscale": "true" };

/** A follower of the drawn zone, and its wanted number of replicas, or why it keeps its own. */
export function follower(
  name: string,
  drawing: string,
  wanted: Follower["wanted"],
  { annotations = {}, labels = {}, ...options }: FollowerOptions = {},
): Follower {
  const texts = { "rollout-downscale-leader": "leader", ...annotations };
  const metadata = { name, uid: `uid-of-${name}`, resourceVersion: "5" };
  const scaling = parseScaling({ ...metadata, labels: grafana(labels), annotations: grafana(texts) });
  return { own: zone(name, drawing, { scaling, ...options }), wanted };
}

/** The ledger is an hour old, and has nothing in it. */
export function snapshotOf(followers: readonly Follower[], changes: Partial<FollowSnapshot> = {}): FollowSnapshot {
  return {
    group: "group",
    nowMs,
    zones: followers.map(({ own }) => own),
    departed: [],
    strayClaims: [],
    followers: followers.map(({ own, wanted }) => ({ statefulSet: own.workload, wanted })),
    claims: [],
    times: { ledger: {}, isMalformed: false, ledgerSinceMs: nowMs - 3_600_000 },
    refused: new Map(),
    ...changes,
  };
}

/** The sizes of a verdict, such as `b to 4`; `done` without one; or the guard that it waits behind. */
export function outcomeOf(verdict: Verdict<FollowerResize>): string {
  if (verdict.kind === "wait") return verdict.guard;
  return verdict.targets.map(({ statefulSet, target }) => `${statefulSet.name} to ${target}`).join(", ") || "done";
}
