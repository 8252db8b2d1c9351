/**
 * Sluice itself is rolled while it works: two processes of an older version give way to two of this one, one at a time, and the
 * webhook configurations come last. Then this one gives way to the older, as when a user takes the update back: the older webhook
 * configurations come first. Each exchange falls into a rollout and a drain.
 */
import { eventually } from "../../controlplane/api.ts";
import { changeTemplate } from "../../controlplane/fixtures.ts";
import { addNodes, drainNodes } from "../../support/drain.ts";
import { evict } from "../../support/drain-webhook.ts";
import type { EvictionStage } from "../../support/eviction-stage.ts";
import type { Verdict } from "../../support/history.ts";
import { Scene } from "../../support/scene.ts";
import { type Done, type Ending, Processes, type Version } from "./processes.ts";
import { Asker, applyWebhooks, type Failed, makeService, removeWebhooks } from "./webhooks.ts";

export interface Outcome {
  /** A message for each promise that was broken. What hangs is thrown. */
  readonly violations: readonly string[];
  readonly takings: Verdict["takings"];
  readonly done: Readonly<Record<Version, Done>>;
  /** What processes said as an error: none of it need be wrong. */
  readonly complaints: readonly string[];
  /** How many reviews were asked for without end, and what the API server said of those that failed while each version ended. */
  readonly reviews: { readonly asked: number; readonly failedInEnd: Readonly<Record<Version, readonly string[]>> };
}

const name = "rolling";
const zonesDrained = ["zone-a", "zone-b"];
const budget = 2;
const options = {
  pods: 6,
  maxUnavailable: budget,
  nodesPerZone: 1,
  readyAfterMs: 1_000,
  zoneBudget: { maxUnavailable: budget },
};
/** The first step of a phase, and the version that replaces the process that has run longest. */
const phases: readonly { readonly webhooks?: Version; readonly coming?: Version }[] = [
  { coming: "newer" },
  { coming: "newer" },
  { webhooks: "newer" },
  { webhooks: "older", coming: "older" },
  { coming: "older" },
];
const keyed = "/pods/eviction/pin";
/** Stays in the ledger all the time, as a later version's entry would: each function leaves it alone. */
const unknown = { "test.sluice.dev/unknown": ' {"spelled": "oddly" } ' };
const phaseWithinMs = 180_000;

/** Throws an error with the state of things if a phase does not end. `tell` gets a line for each phase. */
export async function rollSluice(
  { controlPlane }: EvictionStage,
  checkouts: Readonly<Record<Version, string>>,
  log: (line: string) => void,
): Promise<Outcome> {
  const scene = await Scene.set(controlPlane, name, options);
  try {
    await makeService(scene);
    const processes = await Processes.start(scene, checkouts);
    scene.afterwards(() => removeWebhooks(scene));
    await applyWebhooks(scene, checkouts.older, processes.port);
    const asker = await Asker.start(scene);
    await waitForTrustedLedger(scene);
    await scene.api.patch(scene.ledgerPath, { metadata: { annotations: unknown } });
    for (const [index, { webhooks, coming }] of phases.entries()) {
      if (webhooks !== undefined) await changeWebhooks(scene, processes, checkouts, webhooks, log);
      await playPhase(scene, processes, index + 1, coming, log);
    }
    await asker.stop();
    await processes.end();
    const left = await annotationsOf(scene);
    const lost = Object.entries(unknown).filter(([key, value]) => left[key] !== value);
    const { violations, takings, mostDown } = await scene.end();
    const { failed, failedInEnd } = sortFailed(asker.failed, processes.endings);
    const tooMany = Object.entries(mostDown).filter(([, down]) => down > budget);
    return {
      violations: [
        ...violations,
        ...tooMany.map(([zone, down]) => `${down} pods of ${zone} were down at once`),
        ...failed.map(({ answer }) => `a review failed: ${answer}`),
        ...lost.map(([key]) => `a version has changed ${key} in the ledger, which it does not know`),
      ],
      takings,
      done: processes.done,
      complaints: processes.complaints,
      reviews: { asked: asker.asked, failedInEnd },
    };
  } catch (error) {
    log(`how things stood when it failed:\n${await scene.describe()}`);
    throw error;
  } finally {
    await scene.close();
  }
}

/** A process that has just started permits nothing under a recent ledger (rule R4), and here they start one after the other. */
async function waitForTrustedLedger({ api, ledgerPath, group }: Scene): Promise<void> {
  await eventually("the ledger older than any process's doubt", 90_000, async () => {
    const { metadata } = await api.get<{ metadata: { creationTimestamp: string } }>(ledgerPath);
    return Date.now() - Date.parse(metadata.creationTimestamp) > 43_000 ? true : undefined;
  });
  await eventually("an eviction allowed", 30_000, async () =>
    (await evict(api, name, `${group.statefulSets[0]}-0`, "in the body")).code === 201 ? true : undefined,
  );
}

/** The newer webhook configurations end an upgrade, and the older ones begin the way back. */
async function changeWebhooks(
  scene: Scene,
  processes: Processes,
  checkouts: Readonly<Record<Version, string>>,
  version: Version,
  log: (line: string) => void,
): Promise<void> {
  const startedMs = performance.now();
  await applyWebhooks(scene, checkouts[version], processes.port);
  await processes.askForKey(keyed, version === "newer");
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  const isAsked = version === "newer" ? "is asked for" : "is not asked for any more";
  log(`the ${version} webhook configurations: the key ${isAsked} after ${seconds} s`);
}

/** A review that fails while a process of the older version ends is the older version's own. */
function sortFailed(failed: readonly Failed[], endings: readonly Ending[]) {
  const endingAt = ({ atMs }: Failed) => endings.find(({ fromMs, toMs }) => atMs >= fromMs - 500 && atMs <= toMs + 500);
  const loggedBy = (version: Version) =>
    failed.filter((one) => endingAt(one)?.version === version).map(({ answer }) => answer);
  const failedInEnd = { older: loggedBy("older"), newer: loggedBy("newer") };
  return { failed: failed.filter((one) => endingAt(one)?.version !== "older"), failedInEnd };
}

/** A rollout begins, then a drain of two zones; then one process may be replaced. Resolves when all of it has ended. */
async function playPhase(
  scene: Scene,
  processes: Processes,
  phase: number,
  coming: Version | undefined,
  log: (line: string) => void,
): Promise<void> {
  const { controlPlane, api, group, observer } = scene;
  const startedMs = performance.now();
  const [before, from] = [processes.names, observer.takings.length];
  const image = `app:${phase + 1}`;
  await changeTemplate(controlPlane, group, image);
  await scene.waitForTakings(from + 2);
  for (const zone of zonesDrained) await addNodes(api, group, zone, 1, phase + 1);
  const leaving = zonesDrained.map((zone) => `${name}-${zone}-${phase}`);
  const draining = drainNodes(controlPlane, api, leaving, phaseWithinMs);
  const exchanging = scene.waitForTakings(from + 6, phaseWithinMs).then(() => coming && processes.exchange(coming));
  const [{ attempts }] = await Promise.all([draining, exchanging]);
  await scene.waitForRollout(image, phaseWithinMs);
  await waitForNothingReserved(scene);
  const taken = observer.takings.slice(from);
  const evicted = taken.filter((one) => one.evicted).length;
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  log(
    `${before} -> ${processes.names}: ${taken.length - evicted} pods rolled and ${evicted} evicted in ${seconds} s, by ${attempts} runs of kubectl drain`,
  );
}

/** Resolves when the ledger has nothing under way any more. */
async function waitForNothingReserved(scene: Scene): Promise<void> {
  await eventually("nothing reserved", phaseWithinMs, async () =>
    ((await annotationsOf(scene))["sluice.dev/reservations"] ?? "{}") === "{}" ? true : undefined,
  );
}

/** The ledger's. */
async function annotationsOf({ api, ledgerPath }: Scene): Promise<Readonly<Record<string, string>>> {
  const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(ledgerPath);
  return metadata.annotations ?? {};
}
