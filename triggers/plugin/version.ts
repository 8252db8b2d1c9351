/** `kubectl sluice version`: the versions of the plugin, of each replica and of the API server. */
import {
  ClusterError,
  type Container,
  isRightMissing,
  type PodObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import manifest from "../../package.json" with { type: "json" };
import type { ApiConnection } from "./terminal.ts";
import { type Emphasis, tableOf } from "./text.ts";

export interface ReplicaVersion {
  readonly pod: string;
  /** What it does, by its label. */
  readonly component: string;
  readonly image: string;
  /** By the tag of the image; null for a tag that is no version, and without a tag. */
  readonly version: string | null;
}

export interface Versions {
  readonly plugin: string;
  /** Null where it has not answered. */
  readonly apiServer: string | null;
  /** Null where pods could not be listed. */
  readonly replicas: readonly ReplicaVersion[] | null;
}

/** As all manifests and the chart label the pods of Sluice. */
const labelSelector = "app.kubernetes.io/name=sluice";
const componentKey = "app.kubernetes.io/component";

/**
 * Each version that can be read, and why the others cannot.
 *
 * @param asked the namespace of the replicas; undefined: all, or that of the connection if the user may not list all
 */
export async function readVersions(
  connection: ApiConnection,
  asked: string | undefined,
): Promise<{ readonly versions: Versions; readonly failures: readonly ClusterError[] }> {
  const failures: ClusterError[] = [];
  const orNull = (error: unknown): null => {
    if (!(error instanceof ClusterError)) throw error;
    failures.push(error);
    return null;
  };
  const [apiServer, replicas] = await Promise.all([
    connection.ready().then(({ gitVersion, major, minor }) => gitVersion ?? `${major}.${minor}`, orNull),
    listReplicas(connection, asked, failures).catch(orNull),
  ]);
  return { versions: { plugin: manifest.version, apiServer, replicas }, failures };
}

async function listReplicas(
  connection: ApiConnection,
  asked: string | undefined,
  failures: ClusterError[],
): Promise<readonly ReplicaVersion[]> {
  return (await listReplicaPods(connection, asked, failures)).map(replicaOf);
}

/** The pods of Sluice. `failures` gets the missing right to list those of all namespaces. Throws ClusterError. */
export async function listReplicaPods(
  { cluster, namespace }: Pick<ApiConnection, "cluster" | "namespace">,
  asked: string | undefined,
  failures: ClusterError[],
): Promise<readonly PodObject[]> {
  const list = async (where: string | undefined) =>
    (await cluster.list("pods", { labelSelector, ...(where !== undefined && { namespace: where }) })).items;
  const pods = await list(asked).catch((error: unknown) => {
    if (asked !== undefined || !isRightMissing(error)) throw error;
    failures.push(error);
    return list(namespace);
  });
  return pods.filter(isRunning);
}

/** False for the pod of a Job that has ended. */
function isRunning({ status }: PodObject): boolean {
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

function replicaOf(pod: PodObject): ReplicaVersion {
  const { metadata } = pod;
  const { image = "" } = containerOf(pod) ?? {};
  const component = metadata.labels?.[componentKey] ?? "-";
  return { pod: `${metadata.namespace}/${metadata.name}`, component, image, version: versionOf(image) };
}

/** The container of Sluice: on Knative, and with a service mesh, others stand beside it. */
export function containerOf({ spec: { containers = [] } = {} }: PodObject): Container | undefined {
  return containers.find(({ image = "" }) => /(^|\/)sluice[^/]*$/.test(image)) ?? containers[0];
}

/** Of `registry:5000/sluice:v0.1.0@sha256:…` it is `0.1.0`. */
function versionOf(image: string): string | null {
  const [, version] = /:v?(\d+\.\d+\.\d+[^/:@]*)(?:@[^/]*)?$/.exec(image) ?? [];
  return version ?? null;
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}

/** One line for each minor version of replicas that is not that of the plugin. */
export function warningsOf({ plugin, replicas }: Versions): readonly string[] {
  const known = (replicas ?? []).flatMap(({ version }) => version ?? []);
  const byMinor = Map.groupBy(known, minorOf);
  return [...byMinor].flatMap(([minor, { length }]) => {
    if (minor === minorOf(plugin)) return [];
    const what = length === 1 ? "1 replica has" : `${length} replicas have`;
    return [`${what} version ${minor}, and this plugin has ${minorOf(plugin)}: install the plugin of the same version`];
  });
}

export function formatVersions(versions: Versions, emphasize: Emphasis): string {
  const { plugin, apiServer, replicas } = versions;
  const rows = (replicas ?? []).map(({ pod, version, component, image }) => [pod, version ?? "-", component, image]);
  const table = tableOf(["REPLICA", "VERSION", "COMPONENT", "IMAGE"], rows, emphasize);
  const without = replicas === null ? "unknown" : "none found";
  const sections = [
    [
      `Plugin: ${plugin}`,
      `API server: ${apiServer ?? "unknown"}`,
      ...(rows.length > 0 ? [] : [`Replicas: ${without}`]),
    ],
    table,
    warningsOf(versions).map((warning) => `${emphasize("WARNING")} ${warning}`),
  ];
  const shown = sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n"));
  return `${shown.join("\n\n")}\n`;
}
