/** Zones follow the first one, which a client enlarges. */
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../../controlplane/api.ts";
import type { StatefulSet } from "../../controlplane/fixtures.ts";
import type { Contender, ContenderName } from "../contenders.ts";
import type { Size } from "../sizes.ts";
import { compare, type Row } from "../table.ts";
import {
  type Effort,
  measureEffort,
  runTrial,
  type Scene,
  type TestBed,
  type Trial,
  userAgent,
  withContender,
} from "../trial.ts";

export interface Followed extends Effort {
  /** Time from before the leader was changed until the last follower has its size. */
  readonly tookMs: number;
  /** Number of patches of the followers. */
  readonly patches: number;
}

/** The size that the leader gets. */
export const followers = 100;
const restMs = 12_000;
const tailMs = 2_000;
/** Limit that the issue of this bench sets. */
const settledWithinMs = 2_000;
const leader = "grafana.com/rollout-downscale-leader";

export function runFollow(place: TestBed, name: ContenderName, size: Size): Promise<Trial<Followed>> {
  const small = { ...size, pods: 1, budget: 1 };
  return runTrial(place, name, small, (scene) =>
    withContender(scene, { pair: undefined, restMs }, (running) => follow(scene, running)),
  );
}

async function follow({ group, controlPlane, signal }: Scene, contender: Contender): Promise<Followed> {
  const api = await Api.open(controlPlane, { userAgent, connections: 4 });
  const path = (name: string) => `/apis/apps/v1/namespaces/${group.namespace}/statefulsets/${name}`;
  const [first = "", ...others] = group.statefulSets;
  try {
    for (const name of others) await api.patch(path(name), { metadata: { annotations: { [leader]: first } } });
    await delay(restMs / 4, undefined, { signal });
    const measured = await measureEffort(controlPlane, contender);
    const startedMs = performance.now();
    await api.patch(path(first), { spec: { replicas: followers } });
    await eventually(
      "the followers as large as their leader",
      60_000,
      async () => {
        const sets = await Promise.all(others.map((name) => api.get<StatefulSet>(path(name))));
        return sets.every(({ spec }) => spec.replicas === followers) ? true : undefined;
      },
      20,
    );
    const tookMs = performance.now() - startedMs;
    await delay(tailMs, undefined, { signal });
    const effort = await measured();
    const isPatch = ({ verb, resource }: Effort["requestCounts"][number]) =>
      verb === "patch" && resource === "statefulsets";
    const patches = effort.requestCounts.filter(isPatch).reduce((sum, { requests }) => sum + requests, 0);
    return { ...effort, tookMs, patches };
  } finally {
    await api.close();
  }
}

export function followInBrief({ figures, failure, load }: Trial<Followed>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { tookMs, requests, patches, cpuSeconds } = figures;
  const what = `${tookMs.toFixed(0)} ms, ${requests} requests, ${patches} of them patches`;
  return `${what}, CPU ${cpuSeconds.toFixed(3)} s (load ${load.toFixed(1)})`;
}

const rows: readonly Row<Followed>[] = [
  { label: "time until all have the size, ms", value: ({ tookMs }) => tookMs, digits: 0, atMost: settledWithinMs },
  { label: "patches of StatefulSets", value: ({ patches }) => patches, digits: 0 },
  { label: `API requests until ${tailMs / 1000} s later`, value: ({ requests }) => requests, digits: 0 },
  { label: "CPU, seconds", value: ({ cpuSeconds }) => cpuSeconds, digits: 3 },
];

export function followTable(
  { zones }: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<Followed>[],
): string {
  const title = `${zones} zones, of which all but one follow the first, from 1 to ${followers} pods`;
  return [title, ...compare(rows, contenders, trials)].join("\n");
}
