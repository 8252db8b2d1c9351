/** `npm run bench -- rollout`: one change of the template is rolled over a group. */
import { changeTemplate } from "../controlplane/fixtures.ts";
import { type Benchmark, takeTurns } from "./benchmark.ts";
import { against, type ContenderName, contenderNames, ofEvictions, tunedFlags } from "./contenders.ts";
import { type RolloutOptions, shippedUpToPods } from "./options.ts";
import { type Replacement, replacementInBrief, replacementTable, tailMs, watchReplacement } from "./replacement.ts";
import { readyAfterMs, type Size } from "./sizes.ts";
import { seeded } from "./statistics.ts";
import type { ObservedPod } from "./tally.ts";
import { runTrial, type TestBed, type Trial, withContender } from "./trial.ts";

export const newImage = "app:2";
/**
 * Sluice permits nothing for the first 10 s of a new ledger, and a second more because creation times have whole seconds. The
 * peer rests as long, so that the control plane is as quiet for both.
 */
export const restMs = 12_000;

export function rolloutBenchmark(options: RolloutOptions): Benchmark<Trial<Replacement>> {
  return {
    name: "rollout",
    method: method(options),
    settings: { restMs, tailMs, tunedFlags },
    turns: takeTurns(
      { ...options, what: "rollout", random: seeded(options.seed) },
      (size) => contendersOf(options, size),
      runRollout,
    ),
    inBrief: replacementInBrief,
    tables: (trials) =>
      options.sizes.map((size) => {
        const own = trials.filter((trial) => trial.size === size.label);
        return replacementTable(size, contendersOf(options, size), own);
      }),
  };
}

/** The contenders at a size. */
export function contendersOf(
  { contenders, against: other }: Pick<RolloutOptions, "contenders" | "against">,
  size: Size,
): readonly ContenderName[] {
  const usual = contenderNames.filter(
    (name) => !ofEvictions.includes(name) && (name !== "peer-shipped" || size.pods <= shippedUpToPods),
  );
  return [...(contenders ?? usual), ...(other === undefined ? [] : [against])];
}

function runRollout(place: TestBed, name: ContenderName, size: Size): Promise<Trial<Replacement>> {
  return runTrial(place, name, size, (scene) =>
    withContender(scene, { pair: undefined, restMs }, (contender) =>
      watchReplacement(scene, contender, isNew, async () => {
        await Promise.all(scene.groups.map((group) => changeTemplate(scene.controlPlane, group, newImage)));
      }),
    ),
  );
}

/** True for a pod with the new template. */
export function isNew({ spec }: ObservedPod): boolean {
  return spec.containers[0]?.image === newImage;
}

function method({ seed, gogc, nodeFlags }: RolloutOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}; each trial has a namespace, a group and a contender's process of its own. A contender rests for`,
    `${restMs / 1000} s after it is ready (Sluice: after it made the group's ledger, for it permits nothing in the first 10 s of one).`,
    "Time runs from before the first StatefulSet is patched until the last pod is Ready on the new revision, as a watch of the bench",
    `sees it; requests (audit log), bytes (read calls of the contender, encrypted) and CPU until ${tailMs / 1000} s later.`,
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}; peer-shipped: with its defaults.`,
    ...(nodeFlags.length > 0 ? [`Sluice's node has more flags than in its image: ${nodeFlags.join(" ")}.`] : []),
  ].join("\n");
}
