/** The servers in front of the fake cluster, in virtual time. */

import type { AdmissionDefinition } from "../../../../functions/shared/admission/definition.ts";
import { type FunctionDefinition, isStandard } from "../../../../functions/shared/contract/definition.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCalls } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { type Standalone, type StandaloneOptions, startStandalone } from "../../../../triggers/standalone.ts";
import { groupFunctions } from "../../../../triggers/table.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { createWorld } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";

export interface Call {
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
}

/** The timer of a function's own schedule, which always goes on. */
export const isOfSchedule = ({ verb, resource }: Call): boolean => verb === "list" && resource === "leases";

export interface TestWorldOptions {
  readonly settings?: Partial<StandaloneOptions["settings"]> & { readonly evictionWaitMs?: number };
  readonly namespaces?: readonly string[];
  readonly definitions?: readonly FunctionDefinition[];
  readonly admissions?: readonly AdmissionDefinition[];
  readonly status?: StandaloneOptions["status"];
  /** May throw in place of a call. */
  readonly beforeCall?: (call: Call) => void;
}

/** A settled fake cluster with one group of three zones, and the servers, which the test must start. */
export function createTestWorld(options: TestWorldOptions = {}) {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const group = world.addGroup({ namespace: "app", group: "ingester", zones: ["a", "b", "c"], replicas: 3 });
  world.settle();
  const calls: Call[] = [];
  const before = (call: Call): void => {
    calls.push(call);
    options.beforeCall?.(call);
  };
  const lines: Record<string, unknown>[] = [];
  const reporting = createReporting({
    version: "1.2.3",
    serving: "all",
    level: "debug",
    keys: () => 0,
    destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
  });
  const cluster = listenIn(createWorldCluster(world), before);
  const start = (): Standalone =>
    startStandalone({
      cluster,
      definitions: options.definitions ?? groupFunctions.filter(isStandard),
      admissions: options.admissions ?? [],
      status: options.status,
      reporting,
      namespaces: options.namespaces,
      random: () => 1,
      settings: {
        mode: "act",
        views: "watch",
        watchIdleMs: 20_000,
        sweepIntervalMs: 300_000,
        gatherMs: 20,
        concurrency: 8,
        queueKeys: 10_000,
        ...options.settings,
      },
    });
  const startMs = timeline.nowMs();
  /** Lets time pass until `seconds` after the start. */
  const goTo = async (seconds: number): Promise<void> => {
    let arrived = false;
    timeline.after(startMs + seconds * 1000 - timeline.nowMs(), () => {
      arrived = true;
    });
    await timeline.run(() => arrived);
  };
  const changeTemplates = (image: string): void => {
    for (const statefulSet of group.statefulSets) world.changeTemplate(statefulSet, image);
  };
  const isRolled = (): boolean =>
    world.store.list("statefulsets").items.every(({ status }) => status.updatedReplicas === 3) && world.isSettled();
  return { world, cluster, reporting, calls, lines, start, goTo, changeTemplates, isRolled };
}

function listenIn(cluster: Cluster, before: (call: Call) => void): Cluster {
  return wrapCalls(cluster, async ({ verb, resource, given: [, key] }, send) => {
    before({ verb, resource, name: (key as { name?: string }).name ?? "" });
    return await send();
  });
}
