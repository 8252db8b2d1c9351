/**
 * The process outside of the served namespaces, once in a cluster: a namespace that is deleted loses its accounts and rights in
 * any order, and no process in it could remove finalizers any more.
 */

import type { FunctionDefinition, Need } from "../../functions/shared/contract/definition.ts";
import { isClusterScoped } from "../../functions/shared/kubernetes/cluster.ts";
import { variablesOf } from "./fence/expressions.ts";
import { onlyListedChanges, tableOf } from "./fence/fence.ts";
import { repairNeed } from "./fence/guard.ts";
import { policyOf } from "./fence/policy.ts";
import { containerOf, labelsOf, type Manifest, podSecurityContext, ports } from "./object.ts";
import { clusterRightsOf, union } from "./rights.ts";

const name = "sluice-outside";
const labels = labelsOf("outside");

/** How late a namespace that is being deleted is found: nothing is watched, so that the account needs no right to. */
const sweepInterval = "5s";

/** True for a function whose keys are namespaces: it acts where one ends. */
export function actsOutside({ keyedBy }: FunctionDefinition): boolean {
  return keyedBy === "namespaces";
}

/** The workload of the functions that act at the end of a namespace; nothing without such functions. */
export function outsideOf(definitions: readonly FunctionDefinition[]): readonly Manifest[] {
  const actors = definitions.filter(actsOutside);
  if (actors.length === 0) return [];
  // It takes finalizers from volume claims, and may delete none: the guard of a namespace asks it for this right.
  const needs = union([...actors.flatMap((definition) => definition.needs), repairNeed]);
  const settings = {
    FUNCTION: actors.map((definition) => definition.name).join(","),
    NAMESPACE: "*",
    VIEWS: "list",
    SWEEP_INTERVAL: sweepInterval,
    PORT: `${ports.plain}`,
  };
  return [
    ...clusterRightsOf({ name, needs }, labels),
    ...policiesOf(actors.flatMap((definition) => definition.needs)),
    workload(settings),
  ];
}

/**
 * RBAC cannot say "only finalizers, only where a namespace ends". With the right to write StatefulSets of all namespaces an
 * account could run anything anywhere. So the API server itself refuses everything else that it writes.
 */
function policiesOf(needs: readonly Need[]): readonly Manifest[] {
  const written = needs.filter(({ verbs }) => verbs.includes("patch"));
  const resourceRules = written.map(({ group, resource }) => ({
    apiGroups: [group],
    apiVersions: ["*"],
    resources: [resource],
    operations: ["UPDATE"],
  }));
  const ofCluster = written.filter(isClusterScoped).map(({ resource }) => `'${resource}'`);
  const isOfCluster = `request.resource.resource in [${ofCluster.join(", ")}]`;
  const isOurs = `request.userInfo.username.matches('^system:serviceaccount:[^:]+:${name}$')`;
  const table = tableOf({ covers: () => true }, [{ name, needs }]);
  return policyOf(
    { name, labels },
    {
      matchConstraints: { resourceRules },
      matchConditions: [{ name: "by-this-account", expression: isOurs }],
      variables: variablesOf(table),
      validations: [
        ...onlyListedChanges(table, {}),
        {
          expression: `${isOfCluster} ? object.spec.persistentVolumeReclaimPolicy == 'Retain' : has(namespaceObject.metadata.deletionTimestamp)`,
          message: "this account writes objects of a namespace only while that is being deleted, and keeps volumes",
        },
      ],
    },
  );
}

/** One replica: the kubelet starts it again, and a late find causes only a late release. */
function workload(settings: Readonly<Record<string, string>>): Manifest {
  const container = containerOf(settings, {
    ports: [{ name: "http-metrics", containerPort: ports.plain }],
    readinessProbe: { httpGet: { path: "/readyz", port: "http-metrics" }, timeoutSeconds: 2 },
    livenessProbe: { httpGet: { path: "/healthz", port: "http-metrics" }, timeoutSeconds: 5 },
    resources: { requests: { cpu: "20m", memory: "96Mi" }, limits: { memory: "256Mi" } },
  });
  const pod = {
    serviceAccountName: name,
    enableServiceLinks: false,
    securityContext: podSecurityContext,
    containers: [container],
  };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: pod } },
  };
}
