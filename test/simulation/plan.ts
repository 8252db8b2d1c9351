/** The plan of one seed: the shape of the group, and the faults that occur. */

import type { KindName } from "../../functions/shared/ledger/claim.ts";
import type { CallFaults } from "./simulated-cluster.ts";

export interface Plan {
  readonly zones: number;
  readonly replicas: number;
  readonly maxUnavailable: number;
  readonly minReadySeconds: number;
  readonly podManagementPolicy: "Parallel" | "OrderedReady";
  /** Number of processes that roll the group. */
  readonly processes: number;
  /** Number of processes that create and collect ledgers; one is left at peace. */
  readonly keepers: number;
  /** Number of processes of another function that shares the ledger, and the mean time between the pods that they take. */
  readonly recyclers: number;
  readonly recycleEveryMs: number;
  /** Time in the safety phase after which they want no more pods and do not finish what they reserved. */
  readonly recycleForMs: number;
  /** Why the pods of a broken revision never become ready: reasons that kubelets report, and causes without a reason. */
  readonly causes: readonly string[];
  /** How StatefulSets are deleted that are made again later. */
  readonly propagation: readonly Propagation[];
  /** True: views come from real watches over the failing connection. False: they are as stale as rule R5 allows. */
  readonly watching: boolean;
  /** Functions that events trigger watch from a first decision until none was made for this long; undefined: always. */
  readonly onDemandIdleMs: number | undefined;
  readonly readyAfterMs: number;
  readonly goneAfterMs: number;
  readonly controllerDelayMs: number;
  readonly faults: CallFaults;
  /** Share of events that are lost. */
  readonly loseEvents: number;
  readonly doubleEvents: number;
  readonly sweepMs: number;
  /** Number of sweeps that a process runs at the same time, because cron pings may overlap. */
  readonly sweepsAtOnce: number;
  /** Greatest error of the API servers' clocks, in milliseconds. */
  readonly skewMs: number;
  readonly staleness: { readonly oldest: number; readonly between: number };
  readonly neighbours: PlannedNeighbours;
  /** A group in another namespace; undefined: none. */
  readonly elsewhere: PlannedElsewhere | undefined;
  /** The ZoneAwarePodDisruptionBudget over the group; undefined: no client evicts. */
  readonly budget: PlannedBudget | undefined;
  /** Number of processes that answer reviews, and the share of dry runs, which have a process of their own. */
  readonly webhooks: number;
  readonly dryRuns: number;
  /** Time that the API server waits for a webhook, in milliseconds; absent: ten seconds. */
  readonly webhookTimeoutMs?: number;
  /** Time that it says in the review that it waits, in milliseconds; absent: ten seconds. */
  readonly statedTimeoutMs?: number;
  /** Longest time that an eviction may wait for its turn, in milliseconds; 0: it is refused at once. */
  readonly evictionWaitMs: number;
  /** Share of reviews whose client gives up before ten seconds, and of reviews that the API server sends twice. */
  readonly givesUp: number;
  readonly sendsAgain: number;
  /** Probability that a webhook is killed right after it has written the ledger, before the API server gets an answer. */
  readonly dieAfterWrite: number;
  /** Share of allowed evictions that the API server drops, and of those that it carries out late. */
  readonly loseEvictions: number;
  readonly slowEvictions: number;
  readonly slowEvictionMs: number;
  /** Time after which a drain asks again for the same pod, in milliseconds. */
  readonly retryMs: number;
  /** Share of reviews that come by a validating registration, as rollout-operator has it: nothing pins the uid. */
  readonly unpinned: number;
  /** Share of drains that drain a whole node. */
  readonly wholeNodes: number;
  /** True: a PodDisruptionBudget never allows anything. */
  readonly isBlocked: boolean;
  /** True: another webhook refuses every eviction that ours has allowed. */
  readonly isRefused?: boolean;
  /** Functions that also claim other things than pods; absent: none. */
  readonly claims?: PlannedClaims;
  /**
   * StatefulSets whose sizes follow or mirror another object, and whose pods are told before they leave; absent: only users
   * change sizes.
   */
  readonly scaling?: PlannedScaling;
  /** Owners whose pods have stop hooks that wait for a label; absent: none. */
  readonly skipLabels?: PlannedSkipLabels;
  /** Volumes of the group that are suspended, wanted back and removed; absent: its pods have no volumes. */
  readonly suspension?: PlannedSuspension;
  /** Restarts of processes in their pods; absent: none. */
  readonly restarts?: PlannedRestarts;
  /** rollout-operator, which comes and goes beside Sluice; absent: it never runs. */
  readonly otherOperator?: PlannedOperator;
  /** How far `farClock` sets the clocks of all API servers ahead, in milliseconds; absent: some minutes in either direction. */
  readonly farAheadMs?: number;
  /** Other versions of Sluice beside this one; undefined: none. */
  readonly versions: PlannedVersions | undefined;
  /** Duration of the faults, in milliseconds. */
  readonly safetyMs: number;
  /** Mean time between disturbances of each kind, in milliseconds; 0: never. */
  readonly every: Readonly<Record<Disturbance, number>>;
  /** The least and the most time for which `stopProcess` stops a process, in milliseconds; absent: a second and a minute. */
  readonly stoppedMs?: readonly [number, number];
}

/** What the namespace holds besides the group. */
export interface PlannedNeighbours {
  /** A second group of two zones. */
  readonly group: boolean;
  /** The budget selects the pods of both groups, so that Sluice cannot keep it. At peace it is narrowed. */
  readonly spanned: boolean;
  /** Two StatefulSets without a group, under a budget of their own. */
  readonly loose: boolean;
  /** The StatefulSets also have the label by which budgets select their pods. */
  readonly labelled: boolean;
  /** The budget selects by that label instead of by `rollout-group`. */
  readonly byApp: boolean;
}

export interface PlannedElsewhere {
  /** True: the group and its StatefulSets have the same names as the first ones. */
  readonly isNamesake: boolean;
  /** `rests`: no user changes it. `rolls`: its templates change. `stuck`: its last template never works. */
  readonly ending: "rests" | "rolls" | "stuck";
}

export interface PlannedClaims {
  /** Kinds of claims. Two processes make claims of each kind. */
  readonly kinds: readonly KindName[];
  /** Time between the reconciles of each process, in milliseconds. */
  readonly everyMs: number;
  /** True: a later version makes claims of a kind that this version does not know. */
  readonly isForeign: boolean;
  /**
   * True: processes are restarted only if the other pods can do without them. `shipped`: rollouts and evictions ask each pod.
   */
  readonly asks?: boolean | "shipped";
  /** True: pods that are asked give a fixed answer for a while, true or not. */
  readonly lies?: boolean;
  /** True: fenced nodes also have pods of the second group, which has takers of its own. */
  readonly spansGroups?: boolean;
  /** True: two processes of the shipped function fence nodes that users mark, in place of processes that make such claims. */
  readonly fences?: boolean;
}

export interface PlannedScaling {
  /** Time before they leave at which pods are told, in milliseconds; 0: they are not told. */
  readonly delayMs: number;
  /** True: a webhook also tells pods right before they leave. */
  readonly prepares: boolean;
  /** True: the first zone mirrors, and the others follow it. False: each zone mirrors. */
  readonly follows: boolean;
  /** Mean time between changes of the wanted size, in milliseconds. */
  readonly everyMs: number;
  /** Shares of a pod's answers that are refusals, rubbish, or missing, and of messages that are lost or late. */
  readonly refuse: number;
  readonly rubbish: number;
  readonly silent: number;
  readonly lose: number;
  readonly late: number;
  /** Share of sizes changed by hand that the API server stores up to a minute after the webhook has allowed them. */
  readonly slow: number;
  /**
   * Mean time after which a user removes from a StatefulSet, for good, every annotation that has its pods told; absent: never.
   */
  readonly forgetsMs?: number;
}

export interface PlannedSkipLabels {
  /** Number of RabbitmqClusters, and the number of pods of each one's StatefulSet. */
  readonly clusters: number;
  readonly replicas: number;
  /** Number of processes that label pods. */
  readonly markers: number;
  /** The setting SKIP_LABEL_WAIT of these processes, in milliseconds. */
  readonly waitMs: number;
  /** Mean time between deeds of users to an owner or to its pods, in milliseconds. */
  readonly everyMs: number;
  /** The deeds that users do. */
  readonly deeds: readonly SkipDeed[];
  /** Longest time until a node shows a label to a stop hook, in milliseconds. */
  readonly lagMs: number;
  /** Share of pods whose label files are never written again. */
  readonly frozen: number;
  /** Share of stop hooks that end only when they see the label. */
  readonly blocking: number;
  /** Longest time for which another webhook refuses labels, in milliseconds; 0: never. */
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

/** A deed of a user, or of another controller, to owners whose pods have stop hooks. */
export type SkipDeed = (typeof skipDeeds)[number];

export interface PlannedSuspension {
  /** Mean time between deeds of users to a volume claim or to its owners, in milliseconds. */
  readonly everyMs: number;
  /** The deeds that users do. */
  readonly deeds: readonly SuspensionDeed[];
  /**
   * Time for which Sluice keeps volumes, and its wait between two removals, in milliseconds, unless an annotation says
   * otherwise.
   */
  readonly durationMs: number;
  readonly waitMs: number;
  readonly mode: "Zone" | "Group" | "All";
  /** Share of the changes of a suspension to which a user reacts at once. */
  readonly reacts: number;
  /** Number of volume claims of each pod. */
  readonly volumes: 1 | 2;
  /** True: pods are asked about the data of others, and one of them lies; absent: none is asked. */
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

/** A deed of a user, or of another controller, to volume claims and their owners. */
export type SuspensionDeed = (typeof suspensionDeeds)[number];

export interface PlannedRestarts {
  /** Mean time between the wishes of users, in milliseconds. */
  readonly everyMs: number;
  /** Shares of messages to pods, and of their answers, that are lost; and of messages that are up to 40 s late. */
  readonly lose: number;
  readonly late: number;
  /** True: they restart many processes together; absent: one after the other. */
  readonly isTogether?: true;
  /** True: they also park processes, and write triggers; absent: neither. */
  readonly isParking?: true;
  /** True: each message to a pod that changes something arrives a second time, up to 40 s later; absent: once. */
  readonly isTwice?: true;
  /** True: the files stand in Secrets that users change; absent: users bring them to pods. */
  readonly isOfFiles?: true;
  /** True: Secrets that nothing names any more are collected; absent: no process does that. */
  readonly isCollecting?: true;
  /** Longest time until a kubelet brings the files of a Secret, in milliseconds. */
  readonly bringsWithinMs?: number;
}

export interface PlannedOperator {
  /** Number of its pods. */
  readonly replicas: number;
  /** Mean times between its arrivals and until it leaves, in milliseconds. */
  readonly awayMs: number;
  readonly staysMs: number;
  /** True: processes serve a list of namespaces. False: they serve all. */
  readonly isListed: boolean;
  /** Mean time for which LISTs of its pods are refused now and then, in milliseconds; 0: never. */
  readonly refusedMs: number;
}

export interface PlannedVersions {
  /** An older version, which knows claims but no kind of them. */
  readonly older: boolean;
  /** A later version, which claims zones for a purpose that this version does not know. */
  readonly laterKind: boolean;
  /** A later version, which keeps the ledger in a format of its own for a while. */
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
  /** Sets all clocks by minutes. */
  "farClock",
  "loseNodeForGood",
  "recreate",
  "relabel",
  "relabelTemplate",
  "editLedger",
  /** Ends the functions that are installed together, and starts them again later. */
  "uninstall",
] as const;

export type Disturbance = (typeof disturbances)[number];
