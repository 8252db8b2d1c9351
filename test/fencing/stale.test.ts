/**
 * What a fence rests on is lost, late, old or wrong, on real machines. No event reaches the shipped function, the clocks of two
 * API servers are 30 s apart, and all clocks are set by minutes while the fences are armed (A1, A8).
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { fingerprintOf } from "../../functions/fence-node/fingerprint.ts";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { environmentWith } from "./changed-sources.ts";
import { FencingCluster, leasePath, namespace } from "./cluster.ts";
import { EventlessProxy } from "./eventless-proxy.ts";
import { LateLink } from "./late-link.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { type BoundPod, Pods } from "./pods.ts";
import { scaledTimes } from "./times.ts";
import { clockOfFunction, WallClocks } from "./wall-clocks.ts";

const timeoutMs = 60_000;
/** Its schedule has 10 s, and a busy machine takes its time. */
const foundWithinMs = 15_000;
/** T, by the times of these machines: L + 2 W + 2 s. The poll of the test may miss the first moments. */
const leastMs = 6_000;
/** Feeds: at five a second they take longer than a permit and the time of the watchdog together. */
const longerThanAPermit = 20;
/** Observations by which the function has had to decide about what it has read. */
const enoughReads = 6;
const minutesMs = 600_000;
const key = (name: string) => `sluice.dev/${name}`;
const program = join(import.meta.dirname, "../../triggers/main.ts");
/** A sweep lists the records, and then the agents. */
const allLeases = leasePath("").slice(0, -1);
/** A process proposes nothing in its first survey: old lists stay old. */
const oneSurvey = {
  file: "functions/fence-node/survey-agents.ts",
  text: "surveyAgainMs = 8_000;",
  instead: "surveyAgainMs = 3_600_000;",
};
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

describe("a fence of which no event is delivered, by wrong clocks", { skip, concurrency: 1 }, () => {
  const clocks = new WallClocks();
  let link: LateLink;
  let cluster: FencingCluster;
  let proxy: EventlessProxy;
  let server: Server;
  let pods: Pods;
  let excused: BoundPod;

  /** Its peers are those that there were when it got its list. */
  const old = ["node-2", "node-3"];
  const lists: Readonly<Record<string, readonly string[]>> = {
    "node-1": old,
    "node-2": ["node-1", "node-3"],
    "node-3": ["node-1", "node-2"],
    "node-4": ["node-5", "node-6"],
    "node-5": ["node-4", "node-6"],
    "node-6": ["node-4", "node-5"],
  };

  const textOf = async (node: string, text: string) =>
    (await cluster.agentLease(node)).metadata.annotations?.[key(text)];
  const listOf = async (peers: readonly string[]) => {
    const named = peers.map(async (peer) => `${peer}=${fingerprintOf(await cluster.keyOf(peer))}`);
    return (await Promise.all(named)).join(" ");
  };
  async function propose(node: string, peers: readonly string[]): Promise<string> {
    const list = await listOf(peers);
    await cluster.patchAgentLease(node, { [key("agent-peers-proposed")]: list });
    return list;
  }

  async function startServer(): Promise<Server> {
    proxy = await EventlessProxy.start(cluster.controlPlane);
    const own = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace, FENCE_STORM: "100%", FENCE_MAX_CONCURRENT: "2" };
    const settings = { ...clocks.environment(environmentWith([oneSurvey])), ...own };
    return Server.start({ kubeconfig: proxy.kubeconfig, namespace, settings, program });
  }

  async function adoptLists(): Promise<void> {
    const adopted = Object.entries(lists).map(async ([node, peers]) => {
      const list = await propose(node, peers);
      await eventually(`the list of ${node}`, timeoutMs, async () =>
        (await textOf(node, "agent-peers")) === list ? true : undefined,
      );
    });
    await Promise.all(adopted);
    await cluster.untilAllArmed();
  }

  before(async () => {
    // A machine whose clock has no battery begins with this year.
    clocks.set("node-6", -Date.now());
    link = await LateLink.start();
    const settings = { ...clocks.environment(), KUBERNETES_SERVICE_PORT: String(link.port) };
    cluster = await FencingCluster.start(6, settings, scaledTimes, 0);
    const { hostname, port } = new URL(cluster.controlPlane.url);
    link.upstream = { host: hostname, port: Number(port) };
    await Promise.all(cluster.machines.map((machine) => machine.boot()));
    for (const machine of cluster.machines) await cluster.untilUp(machine);
    pods = new Pods(cluster);
    [server, excused] = await Promise.all([startServer(), pods.start("excused", "node-1"), adoptLists()]);
  });

  afterEach((context) => cluster.printLogsOf(context, server));

  after(async () => {
    await server?.stop();
    await proxy?.close();
    await cluster?.stop();
    await link?.close();
    clocks.remove();
  });

  const machineOf = (name: string) => cluster.machine(name);
  const recordOf = (machine: Machine) => cluster.recordOf(machine);
  const untilRecord = (machine: Machine, field: string, wanted: string) =>
    eventually(`the record of ${machine.name} says ${field} ${wanted}`, timeoutMs, async () => {
      const record = await recordOf(machine);
      return record[field] === wanted ? record : undefined;
    });
  async function fed(times: number, { name, hardware }: Machine): Promise<void> {
    const from = hardware.feeds;
    await eventually(`${times} feeds of ${name}`, timeoutMs, async () =>
      hardware.feeds >= from + times ? true : undefined,
    );
  }

  /** Resolves when the function has read an object so often from now on. */
  async function readAgain(path: string, times: number): Promise<void> {
    const from = proxy.readsOf(path);
    await eventually(`${times} reads of ${path}`, timeoutMs, async () =>
      proxy.readsOf(path) >= from + times ? true : undefined,
    );
  }

  test("a node that reaches one peer alone, which started in 1970, goes on for as long as that sees no fence (F23)", async () => {
    const machine = machineOf("node-5");
    await machine.setReaches([cluster.apiAddress, machineOf("node-4").address], false);
    await fed(longerThanAPermit, machine);
    assert.deepEqual(machine.resets, []);
  });

  test("a function that gets no event finds marks within 10 s (F17)", async () => {
    await eventually("the first sweep", timeoutMs, async () =>
      proxy.watches > 0 && proxy.readsOf(allLeases) >= 2 ? true : undefined,
    );
    const part = ["node-1", "node-2", "node-3"].map(machineOf);
    for (const { address } of part) link.detain(address);
    await machineOf("node-1").setReaches([cluster.apiAddress], false);
    // Other nodes were added, and the node that is cut off cannot adopt the longer list.
    const added = await propose("node-1", ["node-2", "node-3", "node-4", "node-6"]);
    machineOf("node-5").bootsAgain = false;
    const marked = [machineOf("node-1"), machineOf("node-5")];
    for (const { name } of marked) await cluster.mark(name);
    for (const machine of marked)
      await eventually(
        `a fence of ${machine.name} begins`,
        foundWithinMs,
        async () => (await recordOf(machine))["fence-id"],
      );
    assert.notEqual(added, await textOf("node-1", "agent-peers"));
  });

  test("clocks that are set by minutes bring evidence by time neither early nor late (F23)", async () => {
    const machine = machineOf("node-5");
    const { "fence-boot-id": bootId } = await untilRecord(machine, "fence-phase", "armed");
    const armedMs = performance.now();
    for (const name of [clockOfFunction, "node-1", "node-2", "node-3", "node-4", "node-5"]) clocks.set(name, minutesMs);
    proxy.aheadMs = minutesMs;
    await eventually("the reset", timeoutMs, async () => (machine.isOn ? undefined : true));
    for (const name of [clockOfFunction, "node-4"]) clocks.set(name, -minutesMs);
    proxy.aheadMs = -minutesMs;
    const { "fence-evidence": evidence } = await eventually("evidence", timeoutMs, async () => {
      const record = await recordOf(machine);
      return record["fence-evidence"] === undefined ? undefined : record;
    });
    const tookMs = performance.now() - armedMs;
    assert.equal(evidence, "time");
    assert.ok(tookMs >= leastMs, `${tookMs} ms`);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
    );
    assert.match(machine.log, /"msg":"fence [-\w]+ is armed for this boot: the watchdog is not fed any more"/);
  });

  test("the list that the node has adopted counts: new peers are in contact, and its own ones excuse it (F25)", async () => {
    const machine = machineOf("node-1");
    await untilRecord(machine, "fence-hold", "quorum");
    await readAgain(leasePath("agent-node-2"), enoughReads);
    const record = await recordOf(machine);
    assert.deepEqual([record["fence-phase"], record["fence-evidence"]], ["armed", undefined]);
    assert.equal(await textOf("node-1", "agent-peers"), await listOf(old));
    assert.deepEqual(machine.resets, []);
  });

  test("a renewal that is carried out long after the agent gave it up is one, and shows no contact (F33)", async () => {
    const machine = machineOf("node-1");
    const late = machineOf("node-2");
    const before = Number(await textOf(late.name, "agent-renewals"));
    link.deliver(late.address);
    await eventually("the late renewal", timeoutMs, async () =>
      Number(await textOf(late.name, "agent-renewals")) === before + 1 ? true : undefined,
    );
    await readAgain(leasePath(`agent-${late.name}`), enoughReads);
    const record = await recordOf(machine);
    assert.deepEqual([record["fence-phase"], record["fence-hold"]], ["armed", "quorum"]);
    assert.equal((await pods.of("excused"))?.metadata.uid, excused.metadata.uid);
    assert.deepEqual([machine.resets, cluster.overlaps], [[], []]);
  });

  test("everything that was lost is found without an event as well: both nodes are clean once they are back (F17)", async () => {
    const boots = machineOf("node-1").bootId;
    for (const name of ["node-1", "node-2", "node-3"]) link.release(machineOf(name).address);
    await machineOf("node-1").setReaches([cluster.apiAddress], true);
    await machineOf("node-5").boot();
    for (const name of ["node-1", "node-5"]) await cluster.untilClean(machineOf(name));
    await cluster.untilUp(machineOf("node-1"));
    assert.deepEqual(
      ["node-1", "node-2", "node-3", "node-4", "node-6"]
        .flatMap((name) => machineOf(name).resets)
        .map((one) => one.bootId),
      [boots],
      "the node reads its fence, and nothing else is reset",
    );
    assert.equal(
      (await pods.of("excused"))?.metadata.uid,
      excused.metadata.uid,
      "after a new boot id nothing is deleted",
    );
    assert.deepEqual(cluster.overlaps, []);
  });
});
