/** `kubectl sluice page`: makes the page of a replica reachable on this machine, by `kubectl port-forward`. */
import {
  ClusterError,
  isRightMissing,
  isTransient,
  type ObjectKey,
  type PodObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { isLoopback, parseListenAddress } from "../settings/listen-address.ts";
import type { PageArguments } from "./commands.ts";
import type { PortForward } from "./port-forward.ts";
import type { ApiConnection, ExitCode, Terminal } from "./terminal.ts";
import { containerOf, listReplicaPods } from "./version.ts";

/** No replica can show its page, with a message that says why. */
export class NoPage extends Error {}

/** How often it checks whether the replica is still ready. */
const checkEveryMs = 2_000;
/** How long after a replica has gone another one may take to become ready. */
const anotherWithinMs = 60_000;
/** `kubectl port-forward` reaches these and loopback addresses. */
const everyAddress = ["0.0.0.0", "::"];

/** That of the manifests and of the chart. */
const usualAddress = "127.0.0.1:8002";

interface Replica extends ObjectKey {
  readonly uid: string;
  /** On which its page is. */
  readonly port: number;
}

/** Until the user ends it. Throws NoPage, ClusterError. */
export async function showPage(
  connection: ApiConnection,
  command: PageArguments,
  { out, err, forward, interrupted }: Terminal,
): Promise<ExitCode> {
  if (forward === undefined) throw new NoPage("no program can be started here");
  const { cluster } = connection;
  const over = interrupted?.() ?? new AbortController().signal;
  // Replicas that were not reached since the last one that was.
  const failed = new Set<string>();
  let hasShown = false;
  let reason = "";
  while (!over.aborted) {
    const replica = await findAnother(connection, command.namespace, { failed, isPatient: hasShown, reason }, over);
    if (replica === undefined) break;
    const forwarded = forward(argumentsOf(command, replica));
    const end = () => forwarded.end();
    over.addEventListener("abort", end);
    const port = await forwarded.forwarding;
    if (port === undefined) failed.add(replica.uid);
    else {
      failed.clear();
      hasShown = true;
      out(`http://127.0.0.1:${port}/ shows the page of ${replica.namespace}/${replica.name}; Ctrl-C ends it\n`);
      await watchReplica(cluster, replica, forwarded);
    }
    reason = await forwarded.ended;
    over.removeEventListener("abort", end);
    if (/unable to listen/i.test(reason))
      throw new NoPage(`port ${command.port} of this machine is taken, or may not be used: choose one with --port`);
    if (!over.aborted) err(`${replica.namespace}/${replica.name} is not reached any more: ${reason}`);
  }
  return 0;
}

function argumentsOf({ kubeconfig, context, port }: PageArguments, replica: Replica): readonly string[] {
  return [
    ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
    ...(context === undefined ? [] : [`--context=${context}`]),
    `--namespace=${replica.namespace}`,
    ...["port-forward", "--address=127.0.0.1", `pod/${replica.name}`, `${port === 0 ? "" : port}:${replica.port}`],
  ];
}

/** Ends the port-forward when the replica is gone or not ready, which kubectl sees only when a connection fails. */
async function watchReplica(
  cluster: ApiConnection["cluster"],
  replica: Replica,
  forwarded: PortForward,
): Promise<void> {
  const over = new AbortController();
  void forwarded.ended.then(() => over.abort());
  while (!over.signal.aborted) {
    await cluster.sleep(checkEveryMs, over.signal);
    if (!over.signal.aborted && !(await isStillReady(cluster, replica))) return forwarded.end();
  }
}

/** True also where that cannot be read: then the port-forward itself shows it. */
async function isStillReady(cluster: ApiConnection["cluster"], replica: Replica): Promise<boolean> {
  try {
    const pod = await find(cluster, "pods", replica);
    return pod?.metadata.uid === replica.uid && isReady(pod);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return true;
  }
}

function isReady(pod: PodObject): boolean {
  const { readySinceMs, terminating } = parsePod(pod);
  return readySinceMs !== undefined && !terminating;
}

/** Undefined once the user has ended the command. Throws NoPage, ClusterError. */
async function findAnother(
  connection: ApiConnection,
  namespace: string | undefined,
  before: { readonly failed: ReadonlySet<string>; readonly isPatient: boolean; readonly reason: string },
  over: AbortSignal,
): Promise<Replica | undefined> {
  const { cluster } = connection;
  const beganMs = cluster.monotonicMs();
  while (!over.aborted) {
    try {
      return await chooseReplica(connection, await listReplicaPods(connection, namespace, []), before);
    } catch (error) {
      const isOver = !before.isPatient || cluster.monotonicMs() - beganMs >= anotherWithinMs;
      if (isOver || !(error instanceof NoPage || isTransient(error))) throw error;
      await cluster.sleep(checkEveryMs, over);
    }
  }
  return undefined;
}

/** A ready one that shows its page, of the own namespace if there is one. Throws NoPage, ClusterError. */
async function chooseReplica(
  { cluster, namespace: own }: ApiConnection,
  pods: readonly PodObject[],
  { failed, reason }: { readonly failed: ReadonlySet<string>; readonly reason: string },
): Promise<Replica> {
  if (pods.length === 0) throw new NoPage("there is no replica of Sluice: see kubectl sluice check");
  const ready = pods.filter(isReady);
  if (ready.length === 0)
    throw new NoPage(`none of ${pods.length} replicas is ready: kubectl describe pod -n ${pathsOf(pods, " ")[0]}`);
  const found = await Promise.all(ready.map((pod) => readReplica(cluster, pod)));
  const serving = found.filter((replica) => replica !== undefined);
  if (serving.length === 0) {
    const where = pathsOf(ready, "/").join(", ");
    throw new NoPage(`no page is shown by ${where}: set STATUS_LISTEN=${usualAddress} there`);
  }
  const left = serving.filter(({ uid }) => !failed.has(uid));
  const replica = left.find(({ namespace }) => namespace === own) ?? left[0];
  if (replica === undefined) throw new NoPage(`no replica can be reached: ${reason}`);
  return replica;
}

/** By a GET, because a list has no settings. Undefined where none of its addresses is reached. Throws ClusterError. */
async function readReplica(
  cluster: ApiConnection["cluster"],
  { metadata: { namespace = "", name, uid } }: PodObject,
): Promise<Replica | undefined> {
  const port = portOf(await readSetting(cluster, { namespace, name }));
  return port === undefined ? undefined : { namespace, name, uid, port };
}

/** Of `STATUS_LISTEN`. One that cannot be read, or that comes from another object, may be the usual one. Throws ClusterError. */
async function readSetting(cluster: ApiConnection["cluster"], key: ObjectKey): Promise<string> {
  try {
    const pod = await find(cluster, "pods", key);
    const set = pod && containerOf(pod)?.env?.find(({ name }) => name === "STATUS_LISTEN");
    return set === undefined ? "off" : (set.value ?? usualAddress);
  } catch (error) {
    if (isRightMissing(error)) return usualAddress;
    throw error;
  }
}

/** Undefined where it is off, or an address that a port-forward does not reach. */
function portOf(setting: string): number | undefined {
  const address = parseListenAddress(setting);
  const isReached = address !== undefined && (isLoopback(address) || everyAddress.includes(address.host));
  return isReached ? address.port : undefined;
}

function pathsOf(pods: readonly PodObject[], between: string): readonly string[] {
  return pods.map(({ metadata }) => `${metadata.namespace}${between}${metadata.name}`);
}
