/** The storm: many clients at once evict every pod of a group through the API server. */
import { setTimeout as delay } from "node:timers/promises";
import { Api } from "../../controlplane/api.ts";
import { evictionOf } from "../../support/review.ts";
import type { Contender, ContenderName } from "../contenders.ts";
import { type Replacement, replacementInBrief, replacementTable, watchReplacement } from "../replacement.ts";
import type { Size } from "../sizes.ts";
import { spreadOf } from "../statistics.ts";
import { figuresOf, type Row } from "../table.ts";
import { runTrial, type Scene, type TestBed, type Trial, userAgent } from "../trial.ts";
import { type AnswerReport, Answers } from "./answers.ts";
import { type BystanderFigures, beside } from "./bystander.ts";
import { evictAsOracle, oracle } from "./oracle.ts";
import { listPods, type Pod, type Setting, withSetting, withWebhook } from "./setting.ts";

/** The API server's answers to evictions, and what happened to the pods. */
export interface StormFigures extends Replacement, BystanderFigures {
  readonly evictions: AnswerReport;
}

export const workers = 32;
export const retryAfterMs = 100;

export function runStorm(place: TestBed, name: ContenderName, size: Size): Promise<Trial<StormFigures>> {
  return runTrial(place, name, size, async (scene) => {
    if (name !== "oracle") {
      return withSetting(scene, (setting) => withWebhook(setting, () => runStormIn(setting)));
    }
    const pods = await listPods(scene);
    return measureStorm(scene, oracle, pods, (evict) => evictAsOracle(scene, pods, evict));
  });
}

/** The storm on a contender that runs, and that the API server asks. */
export function runStormIn(setting: Setting): Promise<StormFigures> {
  return measureStorm(setting, setting.running, setting.pods, (evict) => evictAll(setting, evict));
}

type Evict = (pod: Pod) => Promise<boolean>;

async function measureStorm(
  scene: Scene,
  running: Contender,
  pods: readonly Pod[],
  evictAll: (evict: Evict) => Promise<void>,
): Promise<StormFigures> {
  const old = new Set(pods.map(({ uid }) => uid));
  const answers = new Answers();
  const api = await Api.open(scene.controlPlane, { userAgent, connections: workers });
  const startedMs = performance.now();
  let elapsedMs = 0;
  try {
    const { result: replacement, bystander } = await beside(scene.controlPlane, scene.group.namespace, () =>
      watchReplacement(
        scene,
        running,
        ({ metadata }) => !old.has(metadata.uid),
        async () => {
          await evictAll((pod) => evict(api, pod, answers));
          elapsedMs = performance.now() - startedMs;
        },
      ),
    );
    return { ...replacement, ...bystander, evictions: answers.report(elapsedMs) };
  } finally {
    await api.close();
  }
}

/** Each worker takes a pod and asks until it goes, then takes the next: zone after zone, by ordinal. */
async function evictAll({ pods, signal }: Setting, evict: Evict): Promise<void> {
  const queue = [...pods];
  const work = async (): Promise<void> => {
    for (let pod = queue.shift(); pod !== undefined; pod = queue.shift()) {
      while (!(await evict(pod))) await delay(retryAfterMs, undefined, { signal });
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
}

/** Resolves to whether the pod goes now. */
async function evict(api: Api, pod: Pod, answers: Answers): Promise<boolean> {
  const askedMs = performance.now();
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/eviction`;
  const { statusCode, body } = await api.send("POST", path, evictionOf(pod));
  const text = await body.text();
  const tookMs = performance.now() - askedMs;
  if (statusCode === 201) {
    answers.add({ kind: "allowed", zone: pod.zone, name: pod.name }, tookMs);
    return true;
  }
  const reason = (JSON.parse(text) as { message?: string }).message ?? text;
  answers.add({ kind: statusCode === 429 ? "refused" : "error", message: reason }, tookMs);
  return false;
}

export function stormInBrief(trial: Trial<StormFigures>): string {
  const { figures } = trial;
  const brief = replacementInBrief(trial);
  if (figures === undefined) return brief;
  const { refused, errors } = figures.evictions;
  return `${brief}, ${refused} refusals${errors > 0 ? `, ${errors} ERRORS` : ""}`;
}

export function stormTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<StormFigures>[],
): string {
  const rows: Row<StormFigures>[] = [
    { label: "evictions refused with 429", value: ({ evictions }) => evictions.refused, digits: 0 },
    { label: "other refusals", value: ({ evictions }) => evictions.errors, digits: 0, atMost: 0 },
    { label: "answer to an eviction, p50, ms", value: ({ evictions }) => evictions.p50Ms, digits: 1 },
    { label: "answer to an eviction, p99, ms", value: ({ evictions }) => evictions.p99Ms, digits: 1 },
    { label: "other requests beside it, p50, ms", value: ({ otherP50Ms }) => otherP50Ms, digits: 1 },
    { label: "other requests beside it, p99, ms", value: ({ otherP99Ms }) => otherP99Ms, digits: 1 },
    {
      label: "requests under way that change something, at most",
      value: ({ mostUnderWay }) => mostUnderWay,
      digits: 0,
    },
  ];
  const title = `The storm: every pod evicted through the API server by ${workers} workers`;
  const table = `${title}; ${replacementTable(size, contenders, trials, rows)}`;
  return [table, ...contenders.flatMap((name) => overOracle(name, trials))].join("\n");
}

/** Ratio of medians; nothing if one of the two has no figures. */
function overOracle(name: ContenderName, trials: readonly Trial<StormFigures>[]): string[] {
  const [own, oracles] = [name, "oracle" as const].map((who) =>
    figuresOf(who, trials).map(({ timeOverLimit }) => timeOverLimit),
  );
  if (name === "oracle" || !own?.length || !oracles?.length) return [];
  const ratio = spreadOf(own).median / spreadOf(oracles).median;
  return [`  ${name} takes ${ratio.toFixed(2)} of the oracle's time`];
}
