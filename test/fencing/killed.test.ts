/**
 * Each process of the function is killed after each single write, while another one goes on: the fence of a node that can be
 * reached, that of a node that nothing reaches, and one that deletes its Node. They end as if no process had been killed
 * (A1, A3, A5, A6).
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import type { CarriedOut } from "../support/killing-proxy.ts";
import { MortalFunction } from "../support/mortal-function.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { FencingCluster, type NodeObject, namespace, outOfService } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { Pods } from "./pods.ts";

const timeoutMs = 120_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

/** Of Nodes and Leases: Events are no state of a fence. */
const isWrite = (method: string, path: string): boolean => method !== "GET" && /\/(nodes|leases)(\/|$)/.test(path);

/** What changes whenever a step is taken again: versions, and since when the record is in its phase. */
const changing = /"(resourceVersion|[^"]*fence-since)":"[^"]*",?|\\"resourceVersion\\":\\"\d+\\",?/g;
const stepOf = ({ method, path, body }: CarriedOut): string => `${method} ${path} ${body.replace(changing, "")}`;

describe("a function that is killed after each write", { skip, concurrency: true }, () => {
  let cluster: FencingCluster;
  let pods: Pods;
  let mortal: MortalFunction;
  let deleting: Machine;

  before(async () => {
    cluster = await FencingCluster.start(5);
    pods = new Pods(cluster);
    deleting = cluster.machine("node-3");
    await cluster.armAll();
    await pods.start("reached", "node-1");
    await pods.startFirstOn("cut", "node-2");
    await pods.startFirstOn("deleted", "node-3");
    for (const name of ["node-2", "node-3"]) cluster.machine(name).bootsAgain = false;
    mortal = await MortalFunction.start({
      ...{ controlPlane: cluster.controlPlane, namespace, replicas: 2, isWrite, stepOf, check: assertBackedUp },
      settings: {
        ...{ FUNCTION: "fence-node", FENCE_NAMESPACE: namespace },
        ...{ FENCE_STORM: "100%", FENCE_MAX_CONCURRENT: "3" },
      },
    });
  });

  afterEach((context) => cluster.printLogsOf(context, mortal));

  after(async () => {
    await mortal?.stop();
    await cluster?.stop();
  });

  const phaseOf = async ({ name }: Machine) => (await cluster.recordOf({ name }))["fence-phase"];
  const untilPhase = (machine: Machine, phase: string) =>
    eventually(`the fence of ${machine.name} is ${phase}`, timeoutMs, async () =>
      (await phaseOf(machine)) === phase ? true : undefined,
    );

  /** A5. Meanwhile the other process may make the Node again. */
  async function assertBackedUp(): Promise<void> {
    const isGone = async () => (await cluster.find(`/api/v1/nodes/${deleting.name}`)) === undefined;
    if (!(await isGone())) return;
    const { "node-backup": backup = "" } = await cluster.recordOf(deleting);
    if (await isGone()) assert.match(backup, /"example.com\/rack":"7"/);
  }

  /** The writes of one fence, each of which has ended a process. */
  const writesAbout = (node: string) => mortal.writes.filter(({ path }) => new RegExp(`${node}$`).test(path));

  async function endsClean(machine: Machine): Promise<void> {
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    assert.equal(machine.resets.length, 1, "one reset for one fence (A8)");
    assert.equal(machine.resets[0]?.cause, "watchdog");
    const writes = writesAbout(machine.name);
    assert.ok(writes.length >= 9, `${writes.length} writes: ${JSON.stringify(writes)}`);
    assert.deepEqual(mortal.broken, []);
    assert.deepEqual(cluster.overlaps, []);
  }

  const statesOf = (name: string) => cluster.history.filter(({ metadata }) => metadata.name === name);
  const isOutOfService = ({ spec }: NodeObject) => spec.taints?.some((taint) => taint.key === outOfService) === true;

  test("a node that can be reached is reset once, its pod keeps its uid, and nothing is left (F1, F15)", async () => {
    const machine = cluster.machine("node-1");
    const uid = (await pods.of("reached"))?.metadata.uid;
    await cluster.mark(machine.name);
    await endsClean(machine);
    assert.equal((await pods.of("reached"))?.metadata.uid, uid);
    assert.ok(!statesOf(machine.name).some(isOutOfService), "A3");
  });

  test("a node that nothing reaches: by time its pod runs elsewhere, no two run at once, and nothing is left (F3, F15)", async () => {
    const machine = cluster.machine("node-2");
    const pod = await pods.of("cut");
    assert.ok(pod);
    await machine.setConnected(false);
    await cluster.mark(machine.name);
    const replacement = await pods.replacementOf("cut", pod);
    assert.notEqual(replacement.spec.nodeName, machine.name);
    assert.equal((await cluster.recordOf(machine))["fence-evidence"], "time");
    await machine.boot();
    await endsClean(machine);
    assert.equal((await pods.of("cut"))?.metadata.uid, replacement.metadata.uid);
  });

  test("a Node that is deleted is made again with what it had, its pod runs elsewhere, and nothing is left (A5, F15)", async () => {
    const pod = await pods.of("deleted");
    assert.ok(pod);
    const { name } = deleting;
    const { metadata } = await cluster.patchNode(name, {
      metadata: { labels: { "example.com/rack": "7" }, annotations: { [key("fence-strategy")]: "node-deletion" } },
    });
    await deleting.setConnected(false);
    await cluster.mark(name);
    await untilPhase(deleting, "deleted");
    // As the pod collector does a minute later.
    await cluster.api.delete("/api/v1/namespaces/default/pods/deleted-0", { gracePeriodSeconds: 0 });
    const replacement = await pods.replacementOf("deleted", pod);
    assert.notEqual(replacement.spec.nodeName, name);
    await untilPhase(deleting, "recovering");
    const restored = await cluster.node(name);
    assert.notEqual(restored.metadata.uid, metadata.uid);
    assert.equal(restored.metadata.labels?.["example.com/rack"], "7");
    await cluster.patchNode(name, { metadata: { annotations: { [key("fence-strategy")]: null } } });
    await deleting.boot();
    await endsClean(deleting);
    assert.ok(!statesOf(name).some(isOutOfService));
  });
});
