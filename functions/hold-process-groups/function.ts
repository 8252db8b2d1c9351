import * as foundation from "../shared/annotations/foundationdb.ts";
import { finalizerPaths, pathsOf } from "../shared/annotations/paths.ts";
import * as suspension from "../shared/annotations/suspension.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { reconcileObject } from "../shared/reconcile/reconcile-object.ts";
import { guards } from "./guards.ts";
import { pvcAnnotations } from "./messages.ts";
import { clusterOfPvc, listKeys, name, resource, settings } from "./observe.ts";
import { clusterReconciler } from "./reconcile.ts";

/** The fields of a FoundationDBCluster that the function writes. */
const clusterPaths = [
  "spec.processGroupsToRemove",
  "spec.processGroupsToRemoveWithoutExclusion",
  "spec.buggify.blockRemoval",
  ...pathsOf(foundation.heldGroups),
];

const pvcPaths = [...pathsOf(...pvcAnnotations), ...finalizerPaths(suspension.volumeProtection)];

/** Blocks the removal of process groups of a FoundationDBCluster, so that their volumes are suspended first. */
export const holdProcessGroups: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "hold back the removal of FoundationDB's process groups until their volumes' time is over",
  guards,
  keyedBy: resource,
  // It reads pods every few seconds while a removal is blocked.
  watches: [
    { resource, keysOf: (key) => [{ resource, ...key }] },
    { resource: "persistentvolumeclaims", selector: foundation.clusterName, keysOf: clusterOfPvc },
  ],
  listKeys,
  needs: [
    { group: "apps.foundationdb.org", resource, verbs: ["get", "list", "patch"], changes: clusterPaths },
    {
      group: "apps.foundationdb.org",
      resource: `${resource}/status`,
      verbs: ["patch"],
      changes: ["status.processGroups"],
    },
    { group: "", resource: "persistentvolumeclaims", verbs: ["get", "list", "patch"], changes: pvcPaths },
    { group: "", resource: "namespaces", verbs: ["get"] },
    { group: "", resource: "pods", verbs: ["list"] },
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [
    ...foundation.foundationEntries,
    ...[suspension.suspendDuration, suspension.removalMode, suspension.waitBetweenRemovals],
    suspension.suspendRequest,
    suspension.drainedAt,
    suspension.recover,
    ...[suspension.suspendState, suspension.suspendMessage],
    suspension.hold,
  ],
  writes: [foundation.heldGroups, ...pvcAnnotations],
  settings,
  finalizers: [{ name: suspension.volumeProtection, setting: settings.volumeHold }],
  reconcile: (context, key) => reconcileObject(context, clusterReconciler, key),
};
