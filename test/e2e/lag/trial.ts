/** One scenario with one seed: users act while watches lag, then nothing is late any more, and everything must come to rest. */
import { eventually } from "../../controlplane/api.ts";
import type { StatefulSet } from "../../controlplane/fixtures.ts";
import type { Pod } from "../../controlplane/podstatus.ts";
import { checkHistory } from "./check-history.ts";
import { describe } from "./history.ts";
import type { Scenario } from "./scenarios.ts";
import { Stage, type StageOptions } from "./stage.ts";

export interface TrialOptions extends Omit<StageOptions, "name"> {
  readonly scenario: Scenario;
  /** How long users act. */
  readonly forMs: number;
}

export interface Outcome {
  readonly scenario: string;
  readonly seed: number;
  /** A message for each promise that was broken, what hangs among them; nothing broken: empty. */
  readonly violations: readonly string[];
  /** How many pods Sluice took, by rollouts and by evictions. */
  readonly taken: { readonly rollout: number; readonly eviction: number };
  /** From when users stopped until everything was at rest, in milliseconds. */
  readonly restMs: number;
  /** What happened, a line each. */
  readonly history: readonly string[];
}

/** Reservations whose pod never went lapse after two and a half minutes, and some only then. */
const atRestWithinMs = 240_000;

/** Never throws for a failure of Sluice; throws if the stage itself breaks. */
export async function tryOut({ scenario, forMs, ...options }: TrialOptions): Promise<Outcome> {
  const { seed } = options;
  const stage = await Stage.set({ ...options, name: `${scenario.name}-${seed}` });
  const hangs: string[] = [];
  try {
    await scenario.play(stage, forMs);
    stage.calm();
    const calmMs = performance.now();
    await comeToRest(stage).catch(async (error: Error) => {
      const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
      hangs.push(`hangs: ${error.message}${cause}\n${await stage.describe()}`);
    });
    const restMs = performance.now() - calmMs;
    const sightings = await stage.witness.sightings();
    const { violations, takings } = checkHistory(sightings, stage.deletedPods);
    const count = (by: string) => takings.filter((taking) => taking.by === by).length;
    return {
      scenario: scenario.name,
      seed,
      violations: [...violations.map((one) => `${one.invariant}: ${one.message}`), ...stage.endedDrains, ...hangs],
      taken: { rollout: count("rollout"), eviction: count("eviction") },
      restMs,
      history: describe(sightings, stage.journal, stage.deletedPods),
    };
  } finally {
    await stage.close();
  }
}

async function comeToRest(stage: Stage): Promise<void> {
  await stage.afterwards?.();
  await eventually(
    "the group at rest",
    atRestWithinMs,
    async () => {
      const unrest = await unrestOf(stage);
      if (unrest === undefined) return true;
      throw new Error(unrest);
    },
    250,
  );
}

/** The first object that is not in its final state. */
async function unrestOf(stage: Stage): Promise<string | undefined> {
  const { api, group } = stage;
  const { name, namespace } = group;
  const sets = await api.get<{ items: StatefulSet[] }>(stage.statefulSetPath());
  for (const { metadata, spec, status } of sets.items) {
    if (status?.observedGeneration !== metadata.generation) return `${metadata.name} is not observed`;
    if (status?.readyReplicas !== spec.replicas || status.updatedReplicas !== spec.replicas)
      return `${metadata.name}: ${JSON.stringify(status)}`;
  }
  const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=rollout-group=${name}`;
  const { items } = await api.get<{ items: Pod[] }>(path);
  const leaving = items.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (leaving !== undefined) return `${leaving.metadata.name} terminates`;
  const wanted = sets.items.reduce((sum, { spec }) => sum + spec.replicas, 0);
  if (items.length !== wanted) return `${items.length} pods, and not ${wanted}`;
  const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-${name}`;
  const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(lease);
  const reserved = metadata.annotations?.["sluice.dev/reservations"] ?? "{}";
  return reserved === "{}" ? undefined : `reserved: ${reserved}`;
}
