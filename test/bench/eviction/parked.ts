/** Measures what the largest possible number of parked evictions does to other requests. */
import { setTimeout as delay } from "node:timers/promises";
import { mostParked, mostParkedOfGroup } from "../../../functions/evaluate-eviction/group-commit/parked-reviews.ts";
import { Api, eventually } from "../../controlplane/api.ts";
import { createGroup } from "../../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../../controlplane/kubelet.ts";
import { evictionOf } from "../../support/review.ts";
import type { ContenderName } from "../contenders.ts";
import type { Size } from "../sizes.ts";
import { compare, type Row } from "../table.ts";
import { runTrial, type TestBed, type Trial, userAgent } from "../trial.ts";
import { asUser, type BystanderFigures, beside, letUser } from "./bystander.ts";
import { type Setting, withSetting, withWebhook } from "./setting.ts";

export interface ParkedFigures {
  readonly without: BystanderFigures;
  readonly with: BystanderFigures;
  /** Average number of evictions under way. */
  readonly parked: number;
}

const measuredMs = 20_000;
const never = 3_600_000;
const groups = mostParked / mostParkedOfGroup;

export function runParked(place: TestBed, name: ContenderName, size: Size): Promise<Trial<ParkedFigures>> {
  return runTrial(place, name, size, (scene) =>
    withSetting(scene, (setting) => withWebhook(setting, () => measureParked(setting))),
  );
}

/** No pod of these groups ever becomes Ready, so that no zone is whole: all evictions wait until they are refused. */
async function measureParked(setting: Setting): Promise<ParkedFigures> {
  const { controlPlane, group } = setting;
  const { namespace } = group;
  const names = Array.from({ length: groups }, (_, index) => `held-${index + 1}`);
  const api = await Api.open(controlPlane, { userAgent, connections: 2 * mostParked });
  try {
    await letUser(controlPlane);
    for (const name of names) await makeStuck(setting, api, name);
    const { bystander: without } = await beside(controlPlane, namespace, () => delay(measuredMs));
    const ended = new AbortController();
    let [underWay, samples, seen] = [0, 0, 0];
    const ask = async (pod: string): Promise<void> => {
      while (!ended.signal.aborted) {
        underWay++;
        const path = `/api/v1/namespaces/${namespace}/pods/${pod}/eviction`;
        const { body } = await api.send("POST", path, evictionOf({ namespace, name: pod }), undefined, asUser);
        await body.dump();
        underWay--;
        await delay(100, undefined, { signal: ended.signal }).catch(() => {});
      }
    };
    const pods = names.flatMap((name) =>
      Array.from({ length: mostParkedOfGroup }, (_, one) => `${name}-zone-a-${one}`),
    );
    const asking = Promise.all(pods.map(ask));
    await delay(1_000);
    const { bystander } = await beside(controlPlane, namespace, async () => {
      for (const endMs = performance.now() + measuredMs; performance.now() < endMs; await delay(100)) {
        seen += underWay;
        samples++;
      }
    });
    ended.abort();
    await asking;
    return { without, with: bystander, parked: seen / samples };
  } finally {
    await api.close();
  }
}

async function makeStuck({ controlPlane, group }: Setting, api: Api, name: string): Promise<void> {
  const { namespace } = group;
  const podAnnotations = { [ANNOTATIONS.readyAfterMs]: String(never) };
  await createGroup(controlPlane, { name, namespace, zones: 2, pods: mostParkedOfGroup, podAnnotations });
  await api.post(`/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name, namespace },
    spec: { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": name } } },
  });
  const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=rollout-group=${name}`;
  await eventually(`the pods of ${name}`, 60_000, async () => {
    const { items } = await api.get<{ items: unknown[] }>(path);
    return items.length === 2 * mostParkedOfGroup ? true : undefined;
  });
}

export function parkedInBrief({ figures, failure, load }: Trial<ParkedFigures>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const [p99, without] = [figures.with, figures.without].map(({ otherP99Ms = Number.NaN }) => otherP99Ms.toFixed(1));
  return `${figures.parked.toFixed(0)} under way, p99 of others ${p99} ms, without ${without} ms (load ${load.toFixed(1)})`;
}

export function parkedTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<ParkedFigures>[],
): string {
  const rows: Row<ParkedFigures>[] = [
    { label: "evictions under way, on average", value: ({ parked }) => parked, digits: 0 },
    { label: "other requests without them, p50, ms", value: ({ without }) => without.otherP50Ms, digits: 1 },
    { label: "beside them, p50, ms", value: ({ with: beside }) => beside.otherP50Ms, digits: 1 },
    { label: "other requests without them, p99, ms", value: ({ without }) => without.otherP99Ms, digits: 1 },
    { label: "beside them, p99, ms", value: ({ with: beside }) => beside.otherP99Ms, digits: 1 },
    { label: "under way that change something, at most", value: ({ with: beside }) => beside.mostUnderWay, digits: 0 },
    { label: "seats of their priority level", value: ({ with: beside }) => beside.seats?.own, digits: 0 },
    { label: "seats taken without them, at most", value: ({ without }) => without.seats?.mostTaken, digits: 0 },
    { label: "beside them, at most", value: ({ with: beside }) => beside.seats?.mostTaken, digits: 0 },
    { label: "requests in its queues, at most", value: ({ with: beside }) => beside.seats?.mostInQueue, digits: 0 },
  ];
  const title = `Held: ${mostParked} evictions of ${groups} groups under way, none of which may go; ${size.label}`;
  return [title, ...compare(rows, contenders, trials)].join("\n");
}
