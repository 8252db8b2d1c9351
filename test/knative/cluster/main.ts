/** `npm run knative`: Sluice on Knative's data plane, on this machine, for a person to try. */
import { join } from "node:path";
import { Api } from "../../controlplane/api.ts";
import { ensureAssets } from "../../controlplane/assets.ts";
import { type ControlPlane, startControlPlane } from "../../controlplane/controlplane.ts";
import { CommandLine } from "../../controlplane/flags.ts";
import { aborted, interruption } from "../../controlplane/interruption.ts";
import { createNode } from "../../controlplane/nodes.ts";
import { buildServer } from "../../support/built-server.ts";
import { Ingesters } from "../../support/ingester.ts";
import { Kubectl } from "../../support/kubectl.ts";
import { findDataPlane } from "../dataplane/programs.ts";
import { KnativeCluster } from "./cluster.ts";
import { install, installKnative } from "./installation.ts";

const HELP = `Starts a control plane, Knative's data plane and Sluice on this machine, installs an overlay of knative/ and an example
group, and tells what starts, scales and ends. It stays in the foreground; Ctrl-C ends all of it.

  npm run knative -- [FLAGS]

  --dir DIR               data, kubeconfig and logs; the same folder goes on where it ended
                          (default: a temporary folder, removed at the end)
  --port PORT             of the API server on 127.0.0.1 (default: a free one)
  --overlay OVERLAY       direct or broker (default: direct)
  --stable-window SECONDS without an event for so long, a function ends (default: 60, as Knative has it)
  --pods-ready-after MS   from a pod's creation to its readiness (default: 1000)
  --help                  this text

The programs of Kubernetes and Knative are built once, with Go, into $SLUICE_CACHE, $XDG_CACHE_HOME/sluice or ~/.cache/sluice.`;

const FLAGS = {
  dir: { type: "string" },
  port: { type: "string" },
  overlay: { type: "string" },
  "stable-window": { type: "string" },
  "pods-ready-after": { type: "string" },
  help: { type: "boolean" },
} as const;

/** The overlays say it. */
const namespace = "default";
/** A function that has just started waits ten seconds for a ledger that is new to it, without being sent anything. */
const leastWindowSeconds = 15;
const zones = ["zone-a", "zone-b", "zone-c"];
const example = join(import.meta.dirname, "../../../knative/examples/zones.yaml");

const report = (line: string): void => console.error(line);

function readSettings(args: readonly string[]) {
  const line = new CommandLine(args, FLAGS);
  const settings = {
    help: line.has("help"),
    directory: line.text("dir"),
    port: line.whole("port", 0, 0, 65_535),
    overlay: line.word("overlay", ["direct", "broker"]),
    stableWindowMs: line.whole("stable-window", 60, leastWindowSeconds, 3_600) * 1_000,
    podsReadyAfterMs: line.whole("pods-ready-after", 1_000, 0, 86_400_000),
  };
  return { settings, mistakes: line.mistakes };
}

type Settings = ReturnType<typeof readSettings>["settings"];

/** Where a pod is told that it leaves. */
const shutdownPath = "/ingester/prepare-shutdown";

function introduce(
  { kubeconfig, kubectl, directory }: ControlPlane,
  overlay: string,
  seconds: string,
  port: number,
): void {
  console.log(`Sluice runs on Knative, overlay ${overlay}, after ${seconds} s. Ctrl-C ends it.

  export KUBECONFIG=${kubeconfig}
  alias kubectl=${kubectl}

The group ingester is there, three zones of four pods. To have it rolled, and to see it:

  kubectl set image statefulset -l rollout-group=ingester ingester=busybox:1.38
  kubectl get pods --watch

Its pods are HTTP servers on port ${port}. To have them told before they leave, make a zone smaller, and another one beside it:

  kubectl label statefulset -l rollout-group=ingester grafana.com/prepare-downscale=true
  kubectl annotate statefulset -l rollout-group=ingester grafana.com/prepare-downscale-http-port=${port} \\
    grafana.com/prepare-downscale-http-path=${shutdownPath}
  kubectl scale statefulset ingester-zone-a --replicas=2 && kubectl scale statefulset ingester-zone-b --replicas=2

To drain a node:  kubectl drain node-1 && kubectl uncordon node-1
To see Knative's objects:  kubectl get ksvc,apiserversource,pingsource,broker,trigger

logs: ${directory}/logs

What starts, scales and ends:`);
}

/** A second node for each zone: a node can be drained only where its pods have another to go to. */
async function addNodes(controlPlane: ControlPlane): Promise<void> {
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-knative", connections: 1 });
  try {
    for (const [index, zone] of zones.entries()) {
      await createNode(api, { name: `node-${zones.length + index + 1}`, zone });
    }
  } finally {
    await api.close();
  }
}

/** Runs a server for each pod of the example's namespace, until the end. */
async function followPods(controlPlane: ControlPlane, pods: Ingesters, ends: (() => Promise<void>)[]): Promise<void> {
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-knative", connections: 2 });
  const ending = new AbortController();
  ends.push(async () => {
    ending.abort();
    await api.close();
  });
  await pods.followPods(api, namespace, ending.signal);
}

/** Resolves when everything is there, to what ends it, last started first. */
async function start(settings: Settings, signal: AbortSignal, ends: (() => Promise<void>)[]): Promise<ControlPlane> {
  const startedMs = performance.now();
  const { directory, overlay, stableWindowMs, port, podsReadyAfterMs } = settings;
  const assets = await ensureAssets(report);
  const dataPlane = await findDataPlane(report);
  const server = await buildServer();
  ends.push(server.remove);
  const options = { port, podsReadyAfterMs, nodes: zones.length, assets, signal, log: report };
  const controlPlane = await startControlPlane(directory === undefined ? options : { ...options, directory });
  ends.push(controlPlane.stop);
  await addNodes(controlPlane);
  await installKnative(controlPlane);
  const log = (line: string) => console.log(`${new Date().toISOString().slice(11, 23)} ${line}`);
  const pods = await Ingesters.open({
    shutdownPath,
    onCall: ({ pod, method, status }) => log(`pod ${pod} answers ${method} with ${status ?? "nothing"}`),
  });
  ends.push(() => pods.close());
  const cluster = await KnativeCluster.start({
    controlPlane,
    dataPlane,
    program: server.program,
    stableWindowMs,
    log,
    nodeOptions: pods.nodeOptions,
  });
  ends.push(() => cluster.close());
  await followPods(controlPlane, pods, ends);
  await install(cluster, { namespace, overlay });
  const kubectl = await Kubectl.open(controlPlane);
  ends.push(() => kubectl.close());
  await kubectl.run("apply", "--namespace", namespace, "-f", example);
  introduce(controlPlane, overlay, ((performance.now() - startedMs) / 1_000).toFixed(1), pods.port);
  return controlPlane;
}

async function main(): Promise<number> {
  const { settings, mistakes } = readSettings(process.argv.slice(2));
  if (mistakes.length > 0) {
    for (const mistake of mistakes) report(mistake);
    return 2;
  }
  if (settings.help) {
    console.log(HELP);
    return 0;
  }
  const interrupted = interruption();
  const ends: (() => Promise<void>)[] = [];
  try {
    const controlPlane = await Promise.race([start(settings, interrupted, ends), aborted(interrupted)]);
    const lost = controlPlane && (await Promise.race([controlPlane.lost, aborted(interrupted)]));
    report(lost ? lost.explanation : "ending");
    return lost ? 1 : 0;
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

try {
  process.exit(await main());
} catch (error) {
  report((error as Error).message);
  process.exit(1);
}
