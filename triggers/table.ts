/** Lists the functions. Everything else about them is in their definitions. */
import { advanceProcessRestart } from "../functions/advance-process-restart/function.ts";
import { advanceZoneRollout } from "../functions/advance-zone-rollout/function.ts";
import { evaluateEviction } from "../functions/evaluate-eviction/function.ts";
import { fenceNode } from "../functions/fence-node/function.ts";
import { followReplicas } from "../functions/follow-replicas/function.ts";
import { gcRestartConfig } from "../functions/gc-restart-config/function.ts";
import { gcSuspendedGroups } from "../functions/gc-suspended-groups/function.ts";
import { guardDownscale } from "../functions/guard-downscale/function.ts";
import { holdProcessGroups } from "../functions/hold-process-groups/function.ts";
import { keepLedgers } from "../functions/keep-ledgers/function.ts";
import { markSkipLabel } from "../functions/mark-skip-label/function.ts";
import { prepareDelayedDownscale } from "../functions/prepare-delayed-downscale/function.ts";
import { prepareDownscale } from "../functions/prepare-downscale/function.ts";
import { rebalanceQueues } from "../functions/rebalance-queues/function.ts";
import { releaseNamespace } from "../functions/release-namespace/function.ts";
import { releasePrepared } from "../functions/release-prepared/function.ts";
import { rotateCertificate } from "../functions/rotate-certificate/function.ts";
import type { AdmissionDefinition } from "../functions/shared/admission/definition.ts";
import { byName, type GuardsByFunction } from "../functions/shared/base/guards.ts";
import type {
  CronDefinition,
  Definition,
  FunctionDefinition,
  StatusDefinition,
} from "../functions/shared/contract/definition.ts";
import { showStatus } from "../functions/show-status/function.ts";
import { suspendGroup } from "../functions/suspend-group/function.ts";
import { validateZoneBudget } from "../functions/validate-zone-budget/function.ts";
import { watchNodeHealth } from "../functions/watch-node-health/function.ts";

/** The functions that events and sweeps trigger for a group, or for another key. */
export const groupFunctions: readonly FunctionDefinition[] = [
  advanceProcessRestart,
  advanceZoneRollout,
  fenceNode,
  followReplicas,
  gcRestartConfig,
  gcSuspendedGroups,
  holdProcessGroups,
  keepLedgers,
  markSkipLabel,
  prepareDelayedDownscale,
  rebalanceQueues,
  releaseNamespace,
  releasePrepared,
  suspendGroup,
  watchNodeHealth,
];

/** The functions that answer admission reviews. */
export const admissionFunctions: readonly AdmissionDefinition[] = [
  evaluateEviction,
  validateZoneBudget,
  guardDownscale,
  prepareDownscale,
];

/** The functions that cron triggers. Changes of objects that belong to no group trigger some of them as well. */
export const cronFunctions: readonly CronDefinition[] = [rotateCertificate];

/** The functions that GETs of the status trigger. */
export const statusFunctions: readonly StatusDefinition[] = [showStatus];

/** The settings of functions, besides those that every process has. */
export const functionSettings = {
  ...rotateCertificate.settings,
  ...evaluateEviction.settings,
  ...prepareDownscale.settings,
  ...rebalanceQueues.settings,
  ...releasePrepared.settings,
  ...markSkipLabel.settings,
  ...suspendGroup.settings,
  ...fenceNode.settings,
  ...watchNodeHealth.settings,
};

export const table: readonly (FunctionDefinition | AdmissionDefinition | CronDefinition | StatusDefinition)[] = [
  ...groupFunctions,
  ...admissionFunctions,
  ...cronFunctions,
  ...statusFunctions,
];

/** The guards of each function by its name, for what explains the waits of all. The bundle of one function has them as well. */
export const guardsByFunction: GuardsByFunction = byName(table);

/**
 * Lists of functions by name, for users who choose what is installed. A function that is added to the table is in none of them
 * until its change adds it. Functions whose finalizers hold objects come with the one that removes these with the namespace.
 */
export const presets: Readonly<Record<string, readonly Definition[]>> = {
  "rollout-operator": [
    advanceZoneRollout,
    followReplicas,
    prepareDelayedDownscale,
    releasePrepared,
    ...[evaluateEviction, validateZoneBudget, guardDownscale, prepareDownscale],
  ],
  rabbitmq: [markSkipLabel, rebalanceQueues, releaseNamespace],
  suspension: [gcSuspendedGroups, releaseNamespace, suspendGroup],
  foundationdb: [gcSuspendedGroups, holdProcessGroups, releaseNamespace, suspendGroup],
};

/**
 * The functions of every choice: without ledgers no pod goes, and without a certificate no review is answered. Whatever is chosen
 * can be seen.
 */
export const alwaysServed: readonly Definition[] = [keepLedgers, rotateCertificate, showStatus];
