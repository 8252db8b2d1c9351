/** What one seed has: the shape of the group, and which faults are about. */

import type { KindName } from "../../functions/shared/ledger/claim.ts";
import type { CallFaults } from "./simulated-cluster.ts";

export interface Plan {
  readonly zones: number;
  readonly replicas: number;
  readonly maxUnavailable: number;
  readonly minReadySeconds: number;
  readonly podManagementPolicy: "Parallel" | "OrderedReady";
  /** How many replicas of the function run at once. */
  readonly processes: number;
  /** How many processes make ledgers and collect them; in the end there is one. */
  readonly keepers: number;
  /** How many processes of another function share the ledger, and how often they want a pod. */
  readonly recyclers: number;
  readonly recycleEveryMs: number;
  /** After this long in the safety phase it wants no more pods, nor finishes what it reserved. */
  readonly recycleForMs: number;
  /** What keeps the pods of a broken revision from ever being ready: reasons of kubelets, and causes without one. */
  readonly causes: readonly string[];
  /** How StatefulSets are deleted that are made again. */
  readonly propagation: readonly Propagation[];
  /** Views come from real watches over the failing connection instead of being as stale as they may be. */
  readonly watching: boolean;
  /** Those whom events trigger watch from a first decision on, until none was made for so long; absent: from their start. */
  readonly onDemandIdleMs: number | undefined;
  readonly readyAfterMs: number;
  readonly goneAfterMs: number;
  readonly controllerDelayMs: number;
  readonly faults: CallFaults;
  /** The share of events that never arrive. */
  readonly loseEvents: number;
  readonly doubleEvents: number;
  readonly sweepMs: number;
  /** How many sweeps of one process run beside each other: cron pings may overlap. */
  readonly sweepsAtOnce: number;
  /** Clocks of API servers are off by up to this much. */
  readonly skewMs: number;
  readonly staleness: { readonly oldest: number; readonly between: number };
  readonly neighbours: PlannedNeighbours;
  /** A group in another namespace; absent: there is none. */
  readonly elsewhere: PlannedElsewhere | undefined;
  /** The ZoneAwarePodDisruptionBudget over the group; absent: no client evicts. */
  readonly budget: PlannedBudget | undefined;
  /** Processes that answer reviews, and whether one more is asked for dry runs alone. */
  readonly webhooks: number;
  readonly dryRuns: number;
  /** How long the API server waits for a webhook; absent: ten seconds. */
  readonly webhookTimeoutMs?: number;
  /** How long it tells the webhook that it waits; absent: ten seconds. */
  readonly statedTimeoutMs?: number;
  /** How long an eviction may wait for its turn; 0: it is refused at once. */
  readonly evictionWaitMs: number;
  /** The share of reviews whose client gives up before ten seconds, and of those that the API server sends a second time. */
  readonly givesUp: number;
  readonly sendsAgain: number;
  /** A webhook is killed with this probability once it has written the ledger, before the API server learns of it. */
  readonly dieAfterWrite: number;
  /** Evictions that the API server drops after the webhook has allowed them, and those that it carries out late. */
  readonly loseEvictions: number;
  readonly slowEvictions: number;
  readonly slowEvictionMs: number;
  /** How often a drain asks again for the same pod. */
  readonly retryMs: number;
  /** The share of reviews that come by a validating registration, rollout-operator's: nothing pins the uid. */
  readonly unpinned: number;
  /** The share of drains that are of a whole node. */
  readonly wholeNodes: number;
  /** A PodDisruptionBudget that allows nothing, for ever. */
  readonly isBlocked: boolean;
  /** Another webhook refuses every eviction after ours has allowed it, for ever. */
  readonly isRefused?: boolean;
  /** Functions that claim more than pods that go; absent: there are none. */
  readonly claims?: PlannedClaims;
  /** StatefulSets whose sizes follow or mirror, and pods that are told; absent: sizes are users' alone. */
  readonly scaling?: PlannedScaling;
  /** Owners whose pods have stop hooks that wait for a label; absent: there are none. */
  readonly skipLabels?: PlannedSkipLabels;
  /** Volumes of the group that are suspended, wanted back and removed; absent: its pods have none. */
  readonly suspension?: PlannedSuspension;
  /** How far `farClock` sets the clocks of all API servers ahead, in milliseconds; absent: some minutes, either way. */
  readonly farAheadMs?: number;
  /** Other versions of Sluice beside this one; absent: there is none. */
  readonly versions: PlannedVersions | undefined;
  /** How long things go wrong, in milliseconds. */
  readonly safetyMs: number;
  /** Mean times between disturbances in milliseconds; 0 for never. */
  readonly every: Readonly<Record<Disturbance, number>>;
}

/** What there is in the namespace besides the group. */
export interface PlannedNeighbours {
  /** A second group of two zones. */
  readonly group: boolean;
  /** The budget selects the pods of both groups, so that Sluice cannot keep it; at peace it is narrowed. */
  readonly spanned: boolean;
  /** Two StatefulSets of no group, under a budget of their own. */
  readonly loose: boolean;
  /** StatefulSets have the label that budgets select their pods by. */
  readonly labelled: boolean;
  /** The budget selects by that label, instead of by `rollout-group`. */
  readonly byApp: boolean;
}

export interface PlannedElsewhere {
  /** It and its StatefulSets have the names of the group and its own; otherwise they have names of their own. */
  readonly isNamesake: boolean;
  /** No user changes it; its templates change; or one of them is no good, for ever. */
  readonly ending: "rests" | "rolls" | "stuck";
}

export interface PlannedClaims {
  /** Two processes make claims of each. */
  readonly kinds: readonly KindName[];
  /** How often each of them looks. */
  readonly everyMs: number;
  /** A later version makes claims of a kind that this version does not know. */
  readonly isForeign: boolean;
  /** True: processes are restarted only where those that are up say so. `shipped`: rollouts and evictions ask each pod. */
  readonly asks?: boolean | "shipped";
  /** Pods that are asked say yes, or no, for a while, whatever is so. */
  readonly lies?: boolean;
  /** Nodes that are fenced have pods of the second group, too, which has takers of its own. */
  readonly spansGroups?: boolean;
}

export interface PlannedScaling {
  /** How long before they leave pods are told, in milliseconds; 0: they are not. */
  readonly delayMs: number;
  /** Pods are told right before they leave, too, by a webhook. */
  readonly prepares: boolean;
  /** The other zones follow the first one, which mirrors; otherwise each of them mirrors. */
  readonly follows: boolean;
  /** How often the autoscaler changes its mind. */
  readonly everyMs: number;
  /** The shares of a pod's answers that are a refusal, rubbish, or none; and of messages that are lost, or late. */
  readonly refuse: number;
  readonly rubbish: number;
  readonly silent: number;
  readonly lose: number;
  readonly late: number;
  /** The share of sizes changed by hand that the API server stores up to a minute after they were allowed. */
  readonly slow: number;
  /** How often a user takes from a StatefulSet all that says that its pods are told, for ever; absent: never. */
  readonly forgetsMs?: number;
}

export interface PlannedSkipLabels {
  /** How many RabbitmqClusters there are, each with a StatefulSet of so many pods. */
  readonly clusters: number;
  readonly replicas: number;
  /** How many processes label pods at once. */
  readonly markers: number;
  /** Their setting SKIP_LABEL_WAIT, in milliseconds. */
  readonly waitMs: number;
  /** How often users do something to an owner or to its pods. */
  readonly everyMs: number;
  /** What they do; absent from it: they never do. */
  readonly deeds: readonly SkipDeed[];
  /** A node shows a label to a stop hook up to this much later. */
  readonly lagMs: number;
  /** The share of pods whose files are never written again. */
  readonly frozen: number;
  /** The share of stop hooks that end only when they see the label. */
  readonly blocking: number;
  /** Another webhook refuses labels for up to this long at a time; 0: never. */
  readonly refuseMs: number;
}

export const skipDeeds = [
  "delete",
  "deleteForeground",
  "deleteOrphan",
  "deleteNamespace",
  "deletePod",
  "deleteStatefulSet",
  "stopAll",
  "strip",
  "unlabel",
  "labelByHand",
  "optOut",
  "deadline",
  "scale",
  "edit",
  "hold",
  "refuse",
] as const;

/** What a user, or another controller, does to owners whose pods have stop hooks. */
export type SkipDeed = (typeof skipDeeds)[number];

export interface PlannedSuspension {
  /** How often a user does something to a volume claim, or to what it belongs to. */
  readonly everyMs: number;
  /** What they do; absent from it: they never do. */
  readonly deeds: readonly SuspensionDeed[];
  /** How long Sluice keeps volumes, and waits between two removals, in milliseconds, unless an annotation says otherwise. */
  readonly durationMs: number;
  readonly waitMs: number;
  readonly mode: "Zone" | "Group" | "All";
  /** The share of the changes of a suspension to which a user reacts at once. */
  readonly reacts: number;
  /** So many volume claims has each pod. */
  readonly volumes: 1 | 2;
  /** Pods are asked about the data of others, and one of them lies; absent: none is asked. */
  readonly asks?: true;
}

export const suspensionDeeds = [
  "request",
  "withdraw",
  "recover",
  "drain",
  "undrain",
  "duration",
  "hold",
  "mode",
  "wait",
  "scaleUp",
  "scaleDown",
  "shift",
  "restore",
  "correct",
  "deleteClaim",
  "retention",
  "stick",
  "debug",
  "forge",
] as const;

/** What a user, or another controller, does to volume claims and to those that they belong to. */
export type SuspensionDeed = (typeof suspensionDeeds)[number];

export interface PlannedVersions {
  /** An older one, which has learnt of claims, and of no kind of them. */
  readonly older: boolean;
  /** A later one, which claims zones for a purpose that this version does not know. */
  readonly laterKind: boolean;
  /** A later one, which keeps the ledger in a format of its own for a while. */
  readonly laterFormat: boolean;
}

export type Propagation = "Orphan" | "Background" | "Foreground";

export interface PlannedBudget {
  readonly maxUnavailable: number | string;
  readonly isPartitioned: boolean;
  readonly delaySeconds: number;
}

export const disturbances = [
  "crash",
  "breakPod",
  "failPod",
  "loseNode",
  "deletePod",
  "changeTemplate",
  "rollBack",
  "brokenTemplate",
  "scale",
  "pause",
  "budget",
  "malformed",
  "strategy",
  "loseLedger",
  "removeZone",
  "addZone",
  "slowController",
  "evict",
  "crashWebhook",
  "zoneBudget",
  "podDisruptionBudget",
  "stopProcess",
  "clock",
  /** All of them, by minutes. */
  "farClock",
  "loseNodeForGood",
  "recreate",
  "relabel",
  "relabelTemplate",
  "editLedger",
  /** Functions that are installed together are away for a while, and begin again. */
  "uninstall",
] as const;

export type Disturbance = (typeof disturbances)[number];
