/** `kubectl sluice check`: one line for each part of an installation, with the command that mends it. */
import type { ClusterError, PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { KindNotServedError } from "../../functions/shared/kubernetes/cluster.ts";
import { createOperatorWatch } from "../../functions/shared/standby/other-operator.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { type Finding, ok, type PartCheck, unknown, unreadable, wrong } from "./check-result.ts";
import { checkOwnRights, checkRightsOfSluice } from "./check-rights.ts";
import { checkAnswering, checkCertificate, checkRegistered, checkTrusted, listWebhooks } from "./check-webhooks.ts";
import type { ApiConnection } from "./terminal.ts";
import { type Emphasis, tableOf } from "./text.ts";
import { listReplicaPods, readVersions, warningsOf } from "./version.ts";

/** With fewer, the API server denies evictions while the only one is replaced. */
const leastReplicas = 2;

/**
 * Every check, in the order in which a reader mends what is wrong.
 *
 * @param namespace of the groups
 * @param asked the namespace of the replicas; undefined: all, or that of the connection if the user may not list all
 */
export async function runChecks(
  connection: ApiConnection,
  namespace: string,
  asked: string | undefined,
): Promise<readonly PartCheck[]> {
  const { cluster } = connection;
  const pods = listReplicaPods(connection, asked, []);
  // Each check reports it.
  const home = (await pods.catch(() => [])).at(0)?.metadata.namespace ?? namespace;
  const webhooks = listWebhooks(cluster, home);
  const checks: readonly (readonly [check: string, find: () => Promise<Finding>])[] = [
    ["CRD", () => checkCrd(connection)],
    ["replicas", async () => checkReplicas(await pods)],
    ["versions", () => checkVersions(connection, asked)],
    ["certificate", () => checkCertificate(cluster, home)],
    ["webhooks registered", async () => checkRegistered(await webhooks, home)],
    ["webhooks trusted", async () => checkTrusted(cluster, await webhooks, home)],
    ["webhooks answer", () => checkAnswering(connection, namespace, home)],
    ["rollout-operator", () => checkOperator(connection, namespace)],
    ["your rights", () => checkOwnRights(cluster, namespace)],
    ["rights of Sluice", () => checkRightsOfSluice(cluster, namespace)],
  ];
  return Promise.all(
    checks.map(async ([check, find]): Promise<PartCheck> => ({ check, ...(await find().catch(unreadable)) })),
  );
}

async function checkCrd({ cluster }: ApiConnection): Promise<Finding> {
  try {
    const { plural, version } = await cluster.resourceOf(
      "rollout-operator.grafana.com",
      "ZoneAwarePodDisruptionBudget",
    );
    return ok(`${plural} are served in ${version}`);
  } catch (error) {
    if (!(error instanceof KindNotServedError)) throw error;
    return wrong(error.message, "kubectl apply --server-side -k sluice/knative/base/crds");
  }
}

/** Of those that answer reviews, if there are any: functions of Knative may have no replica. */
function checkReplicas(pods: readonly PodObject[]): Finding {
  const answering = pods.filter(({ metadata }) => metadata.labels?.["app.kubernetes.io/component"] === "admission");
  const replicas = answering.length > 0 ? answering : pods;
  const [first] = replicas;
  if (first === undefined) return wrong("there is no replica of Sluice", "kubectl apply -k YOUR-OVERLAY");
  const ready = replicas
    .map(parsePod)
    .filter(({ readySinceMs, terminating }) => readySinceMs !== undefined && !terminating);
  const found = `${ready.length} of ${replicas.length} replicas ready`;
  if (ready.length >= leastReplicas) return ok(found);
  const { namespace, labels = {} } = first.metadata;
  if (replicas.length >= leastReplicas)
    return wrong(found, `kubectl describe pod -n ${namespace} -l app.kubernetes.io/name=sluice`);
  const component = labels["app.kubernetes.io/component"];
  const selector = `app.kubernetes.io/name=sluice${component === undefined ? "" : `,app.kubernetes.io/component=${component}`}`;
  return wrong(found, `kubectl scale deployment -n ${namespace} -l ${selector} --replicas=${leastReplicas}`);
}

async function checkVersions(connection: ApiConnection, asked: string | undefined): Promise<Finding> {
  const { versions, failures } = await readVersions(connection, asked);
  const { plugin, apiServer, replicas } = versions;
  const [failure] = failures as readonly (ClusterError | undefined)[];
  if (failure !== undefined && (apiServer === null || replicas === null)) return unreadable(failure);
  const [warning] = warningsOf(versions);
  if (warning !== undefined) return wrong(warning, "npm run build:plugin, in the source of that version");
  const known = [...new Set((replicas ?? []).flatMap(({ version }) => version ?? []))];
  return ok(`plugin ${plugin}, replicas ${known.join(" and ") || "unknown"}, API server ${apiServer}`);
}

async function checkOperator({ cluster }: ApiConnection, namespace: string): Promise<Finding> {
  const watch = createOperatorWatch(cluster, [namespace]);
  const wait = await watch.standBy(namespace);
  if (wait === undefined) return ok(`it does not run in namespace ${namespace}`);
  if (watch.pods().length === 0) return unknown(wait.message);
  return wrong(wait.message, `kubectl scale -n ${namespace} deployment/rollout-operator --replicas=0`);
}

/** A line for each check, in their order. */
export function formatCheck(results: readonly PartCheck[], emphasize: Emphasis): string {
  const rows = results.map(({ check, outcome, message, todo }) => [
    outcome,
    check,
    todo === null ? message : `${message}. To mend it: ${todo}`,
  ]);
  return `${tableOf(["RESULT", "CHECK", "WHAT"], rows, emphasize).join("\n")}\n`;
}

/** 1 if anything is wrong, or nothing is known. */
export function codeOfCheck(results: readonly PartCheck[]): 0 | 1 {
  const isWrong = results.some(({ outcome }) => outcome === "wrong");
  return isWrong || results.every(({ outcome }) => outcome === "unknown") ? 1 : 0;
}
