/**
 * `node --test test/fencing/real-time.ts`, which takes five minutes: the agents of the image by their defaults, with a watchdog
 * of 10 s. The new agent of an update starts a minute late (A8). Meanwhile it counts what each agent costs.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { fingerprintOf } from "../../functions/fence-node/fingerprint.ts";
import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, auditPosition, readAudit } from "../controlplane/audit.ts";
import { type BuiltServer, buildServer } from "../support/built-server.ts";
import { readDockerfile } from "../support/dockerfile.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { AgentUpdates } from "./agent-updates.ts";
import { FencingCluster } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { defaultTimes } from "./times.ts";

/** A drill a minute, a pod that starts a minute late, and half a minute until it counts as Ready. */
const timeoutMs = 240_000;
const pulledForMs = 60_000;
/** Of an agent that is not updated. One renewal more may come where the measurement begins or ends between two. */
const renewEverySeconds = 5;
/** All other requests of one agent in a second: a drill a minute, the Leases of its peers, and what a start costs. */
const mostOthers = 0.1;
const mostResidentBytes = 90_000_000;
/** The measurement takes at least so many renewals of each agent, every five seconds. */
const leastRenewals = 30;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

/** What the image of the agents gives them. */
function agentImage(): Readonly<Record<string, string>> {
  const text = readFileSync(join(import.meta.dirname, "../../Dockerfile"), "utf8");
  const { steps = [] } = readDockerfile(text).find(({ name }) => name === "agent") ?? {};
  const variables = steps.flatMap((step) => (step.kind === "environment" ? [step.variables] : []));
  const flags = steps
    .flatMap((step) => (step.kind === "entrypoint" ? step.command : []))
    .filter((word) => /^--/.test(word));
  assert.ok(variables.length > 0 && flags.length > 0);
  return Object.assign({ NODE_OPTIONS: flags.join(" ") }, ...variables);
}

const textOf = async (cluster: FencingCluster, { name }: Machine, text: string) =>
  (await cluster.agentLease(name)).metadata.annotations?.[key(text)];
const renewalsOf = async (cluster: FencingCluster, machine: Machine) =>
  Number(await textOf(cluster, machine, "agent-renewals"));

async function residentBytesOf({ address }: Machine): Promise<number> {
  const page = await (await fetch(`http://${address}:9843/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\d+)$/m.exec(page)?.[1]);
}

/** Resolves when the agents of three machines have each other as peers, and are armed. */
async function startArmed({ program }: BuiltServer): Promise<FencingCluster> {
  const cluster = await FencingCluster.start(3, agentImage(), defaultTimes, 3, join(program, "../../agent/main.mjs"));
  for (const { name } of cluster.machines) {
    const peers = cluster.machines.filter((one) => one.name !== name);
    const prints = peers.map(async (peer) => `${peer.name}=${fingerprintOf(await cluster.keyOf(peer.name))}`);
    await cluster.patchAgentLease(name, { [key("agent-peers-proposed")]: (await Promise.all(prints)).join(" ") });
  }
  for (const machine of cluster.machines)
    await eventually(`the agent of ${machine.name} is armed`, timeoutMs, async () =>
      (await textOf(cluster, machine, "agent-mode")) === "armed" ? true : undefined,
    );
  return cluster;
}

/** Returns the figures. @param calls the requests of so many seconds */
async function assertCost(
  { machines }: FencingCluster,
  calls: readonly AuditEntry[],
  { seconds, updated }: { readonly seconds: number; readonly updated: Machine },
): Promise<string> {
  const requests = calls.filter(({ userAgent }) => userAgent === "sluice-agent");
  const renewals = requests.filter(({ verb }) => verb === "patch");
  const others = (requests.length - renewals.length) / machines.length / seconds;
  const resident = await Promise.all(machines.map(residentBytesOf));
  const rate = (requests.length / machines.length / seconds).toFixed(3);
  const rates = `${rate} requests a second, ${others.toFixed(3)} of them no renewals`;
  const figures = `${rates}, in ${seconds.toFixed(0)} s; ${resident} bytes`;
  for (const { name } of machines.filter((machine) => machine !== updated)) {
    const own = renewals.filter((one) => one.name === `agent-${name}`).length;
    assert.ok(own >= leastRenewals && own <= seconds / renewEverySeconds + 1, `${own} of ${name}: ${figures}`);
  }
  assert.ok(others < mostOthers, figures);
  const isBetween = (bytes: number) => bytes > 10_000_000 && bytes < mostResidentBytes;
  assert.ok(resident.every(isBetween), figures);
  return figures;
}

describe("the agents of the image in real time, on the real API server", { skip, concurrency: 1 }, () => {
  let built: BuiltServer;
  let cluster: FencingCluster;

  before(async () => {
    built = await buildServer();
    cluster = await startArmed(built);
  });

  afterEach((context) => cluster.printLogsOf(context));

  after(async () => {
    await cluster?.stop();
    await built?.remove();
  });

  test("an update whose new agent starts 60 s late resets nothing at W = 10 s, and an agent costs 0.2 requests a second and less than 90 MB (F30)", async (context) => {
    const { machines, controlPlane } = cluster;
    const updated = cluster.machine("node-1");
    const from = await auditPosition(controlPlane.auditLog);
    const began = await Promise.all(machines.map((machine) => renewalsOf(cluster, machine)));
    const beganMs = performance.now();

    assert.equal(await updated.stopAgent(), 0);
    const updates = new AgentUpdates({ cluster, scale: 1, timeoutMs });
    const old = await updates.begin(updated, {});
    assert.notEqual(await updates.update(updated, {}, pulledForMs), old);
    assert.equal(updated.log.split("port 9843 is taken").length - 1, 1, "the new agent has waited beside the old one");
    for (const [at, machine] of machines.entries())
      await eventually(`renewals of ${machine.name}`, timeoutMs, async () =>
        (await renewalsOf(cluster, machine)) >= (began[at] ?? 0) + leastRenewals ? true : undefined,
      );
    const seconds = (performance.now() - beganMs) / 1_000;
    const resets = machines.flatMap((machine) => machine.resets);
    assert.deepEqual(resets, []);
    const calls = await Array.fromAsync(readAudit(controlPlane.auditLog, { from }));
    context.diagnostic(await assertCost(cluster, calls, { seconds, updated }));
  });
});
