/**
 * How much memory `fence-node` takes in a large cluster, and how soon it arms the fence of a marked node:
 * `npm run build && npx node test/fencing/large.ts --nodes 5000`. Each Node of the real API server has an agent's Lease, and as
 * much in its status as the images of a usual node. The server is that of the image, with its environment.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Api, eventually } from "../controlplane/api.ts";
import { startControlPlane } from "../controlplane/controlplane.ts";
import { readImage } from "../support/dockerfile.ts";
import { Server } from "../support/server.ts";

const namespace = "sluice-fencing";
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const marked = "large-0";
/** Two surveys of all agents lie in it, and several lists of all nodes. */
const watchedForMs = 90_000;
const atOnce = 16;

const program = join(import.meta.dirname, "../../dist/server/start.cjs");

async function createNode(api: Api, at: number): Promise<void> {
  const name = `large-${at}`;
  const boot = `boot-${at}`;
  await api.post("/api/v1/nodes", { metadata: { name, annotations: { "example.com/note": "x".repeat(4_000) } } });
  const images = Array.from({ length: 30 }, (_, index) => {
    return { names: [`registry.example.com/team/image-${index}@sha256:${"a".repeat(64)}`], sizeBytes: 1 };
  });
  const texts = ["machineID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"];
  const rest = [...texts, "kubeProxyVersion", "operatingSystem", "architecture"].map((key) => [key, "x"]);
  const nodeInfo = { ...Object.fromEntries(rest), bootID: boot, systemUUID: `machine-${at}` };
  const conditions = [{ type: "Ready", status: "True", reason: "x", message: "x" }];
  await api.patch(`/api/v1/nodes/${name}/status`, { status: { conditions, images, nodeInfo } });
  const shown = {
    "agent-mode": "explicit-only",
    "agent-boot-id": boot,
    "agent-renewals": "1",
    "agent-why": "no watchdog",
  };
  const annotations = Object.fromEntries(Object.entries(shown).map(([key, text]) => [`sluice.dev/${key}`, text]));
  await api.post(leases, { metadata: { name: `agent-${name}`, annotations } });
}

async function measure(nodes: number): Promise<void> {
  const controlPlane = await startControlPlane();
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-large", connections: atOnce });
  let server: Server | undefined;
  try {
    await api.post("/api/v1/namespaces", { metadata: { name: namespace } });
    let next = 0;
    const creating = async () => {
      while (next < nodes) await createNode(api, next++);
    };
    await Promise.all(Array.from({ length: atOnce }, creating));
    const { environment, flags } = await readImage();
    const own = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace, NODE_OPTIONS: flags.join(" ") };
    const settings = { ...environment, ...own };
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings, program });
    await delay(watchedForMs);
    const beganMs = performance.now();
    await api.patch(`/api/v1/nodes/${marked}`, { metadata: { annotations: { "sluice.dev/unhealthy": "silent" } } });
    await eventually("the armed fence", 60_000, async () => {
      const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(
        `${leases}/agent-${marked}`,
      );
      return metadata.annotations?.["sluice.dev/fence-armed"];
    });
    const armedMs = performance.now() - beganMs;
    await delay(watchedForMs);
    const peak = Math.round(await server.peakMebibytes());
    console.log(`${nodes} nodes: armed ${(armedMs / 1_000).toFixed(1)} s after the mark, at most ${peak} MiB resident`);
  } finally {
    await server?.stop();
    await api.close();
    await controlPlane.stop();
  }
}

const { values } = parseArgs({ options: { nodes: { type: "string", default: "5000" } } });
const nodes = Number(values.nodes);
if (!Number.isSafeInteger(nodes) || nodes < 1) {
  console.error(`--nodes is ${JSON.stringify(values.nodes)}; write a number of nodes`);
  process.exitCode = 2;
} else if (existsSync(program)) await measure(nodes);
else {
  console.error("there is no built server: run npm run build");
  process.exitCode = 2;
}
