/** Measures how long the shipped endpoints take to render and compress the page of the status, at sizes that have bounds. */
import { showStatus } from "../../../functions/show-status/function.ts";
import { startStandalone } from "../../../triggers/standalone.ts";
import { createStatusApp } from "../../../triggers/status/status-app.ts";
import { table } from "../../../triggers/table.ts";
import { createReporting } from "../../../triggers/telemetry/logs-and-metrics.ts";
import { VirtualTimeline } from "../../fake-cluster/timeline.ts";
import { createWorld, type World } from "../../fake-cluster/world.ts";
import { createWorldCluster } from "../../fake-cluster/world-cluster.ts";
import { spreadOf } from "../statistics.ts";
import { aligned, spreadText } from "../table.ts";

/** What the page shows, and how long one render of it may take. */
export interface RenderSize {
  readonly label: string;
  readonly groups: number;
  /** Number of pods of each of the three zones of a group. */
  readonly pods: number;
  readonly atMostMs: number;
}

export interface RenderFigures {
  readonly size: RenderSize;
  /** Processor time from the status to the compressed page, for each second. */
  readonly renderMs: readonly number[];
  /** From the GET to the status: LISTs of the embedded API server, survey and decision. */
  readonly readMs: readonly number[];
  /** Length of the compressed page. */
  readonly bytes: number;
}

export const renderSizes: readonly RenderSize[] = [
  { label: "3 x 1,000 pods of a group at work", groups: 1, pods: 1_000, atMostMs: 10 },
  { label: "500 groups of 3 x 3 pods", groups: 500, pods: 3, atMostMs: 100 },
];

const namespace = "bench";
const zones = ["a", "b", "c"];
const eventsOfSluice = 200;
/** In a group at work every such pod of the first zone crashes, so that hardly two neighbours are alike. */
const brokenEvery = 7;
/** A process renders a page every second, so that V8 has compiled what runs. */
const warmUps = 5;
const rounds = 21;

/** Renders the page of a virtual second after another. */
export async function measureRenders(size: RenderSize): Promise<RenderFigures> {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  fill(world, size);
  const readStatus = serve(world);
  const app = createStatusApp({
    read: async () => status,
    isLoopback: true,
    reporting,
    monotonicMs: () => timeline.nowMs(),
  });
  let status: Awaited<ReturnType<typeof readStatus>>;
  const [renderMs, readMs]: [number[], number[]] = [[], []];
  let bytes = 0;
  for (let round = 0; round < warmUps + rounds; round++) {
    await elapse(timeline, 1_000);
    const asked = process.cpuUsage();
    const reading = readStatus();
    let isRead = false;
    void reading.then(() => {
      isRead = true;
    });
    await timeline.run(() => isRead);
    status = await reading;
    const read = process.cpuUsage();
    const answer = await app.request("http://localhost/", {
      headers: { host: "localhost", "accept-encoding": "gzip" },
    });
    bytes = (await answer.arrayBuffer()).byteLength;
    if (answer.status !== 200 || status?.groups.length !== size.groups) throw new Error("the page is not complete");
    if (round < warmUps) continue;
    const rendered = process.cpuUsage();
    readMs.push(millisecondsOf(asked, read));
    renderMs.push(millisecondsOf(read, rendered));
  }
  return { size, renderMs, readMs, bytes };
}

/** Processor time of all threads: other programs of the machine do not count. */
function millisecondsOf(from: NodeJS.CpuUsage, to: NodeJS.CpuUsage): number {
  return (to.user - from.user + to.system - from.system) / 1_000;
}

const reporting = createReporting({ version: "bench", serving: "all", level: "error", keys: () => 0 });

/** A server that shows the status, and has no other function. */
function serve(world: World) {
  const guards = Object.fromEntries(table.map((one) => [one.name, one.guards]));
  const answeredBy = { replica: "sluice-0", version: "bench", mode: "act", namespaces: [namespace] } as const;
  const { readStatus } = startStandalone({
    cluster: createWorldCluster(world),
    definitions: [],
    admissions: [],
    status: { definition: showStatus, guards, answeredBy },
    reporting,
    namespaces: [namespace],
    settings: {
      ...{ mode: "act", views: "watch", watchIdleMs: 20_000, sweepIntervalMs: 300_000 },
      ...{ gatherMs: 20, concurrency: 8, queueKeys: 10_000 },
    },
  });
  if (readStatus === undefined) throw new Error("there is no status");
  return readStatus;
}

/** Groups whose pods are all ready. A single group is at work: its second zone is outdated, and pods of its first crash. */
function fill(world: World, { groups, pods }: RenderSize): void {
  const all = Array.from({ length: groups }, (_, index) =>
    world.addGroup({ namespace, group: `db-${index}`, zones, replicas: pods }),
  );
  world.settle();
  const lastTimestamp = new Date(world.timeline.nowMs()).toISOString();
  for (let at = 0; at < eventsOfSluice; at++) {
    world.store.create("events", namespace, {
      metadata: { name: `event-${at}` },
      involvedObject: { kind: "StatefulSet", namespace, name: `db-0-${zones[at % zones.length]}` },
      source: { component: "sluice" },
      ...{ reason: at % 2 === 0 ? "EvictionRefused" : "RolloutWaiting", lastTimestamp },
      message: `zone-budget: ${at} of 3 pods are down in db-0-a, so db-0-a-${at} stays until one is back`,
    });
  }
  const [first, second] = all[0]?.statefulSets ?? [];
  if (groups > 1 || first === undefined || second === undefined) return;
  world.changeTemplate(second, "app:2");
  for (let ordinal = 0; ordinal < pods; ordinal += brokenEvery)
    world.kubelet.breakPod({ namespace, name: `${first.name}-${ordinal}` });
}

async function elapse(timeline: VirtualTimeline, ms: number): Promise<void> {
  let isOver = false;
  timeline.after(ms, () => {
    isOver = true;
  });
  await timeline.run(() => isOver);
}

export const keepsBound = ({ size, renderMs }: RenderFigures): boolean => spreadOf(renderMs).median <= size.atMostMs;

/** `!` marks a broken bound. */
export function renderTable(all: readonly RenderFigures[]): string {
  const lines = [
    ["the page", "render, ms", "at most", "read and decide, ms", "kB, compressed"],
    ...all.map((figures) => [
      figures.size.label,
      `${keepsBound(figures) ? "" : "! "}${spreadText(figures.renderMs, 1)}`,
      String(figures.size.atMostMs),
      spreadText(figures.readMs, 1),
      (figures.bytes / 1_000).toFixed(1),
    ]),
  ];
  const title = `Renders: the page of a second, from the status to the compressed copy that serves all clients; processor time of ${rounds}`;
  return [title, ...aligned(lines).map((line) => `  ${line}`)].join("\n");
}
